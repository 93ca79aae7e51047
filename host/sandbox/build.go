package sandbox

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/thole-dev/thole/host/sandbox/meter"
	"github.com/thole-dev/thole/host/sandbox/module"
)

// fetch gets the guest's code: from the cache on disk, else it is compiled.
// wasm is nil if it is to be read when it is needed.
func (g *Guest) fetch(ctx context.Context, wasm []byte) (native, outline, error) {
	n, o, ok := g.cached(ctx)
	if !ok {
		return g.build(ctx, wasm)
	}
	if err := verifyMinimum(o.Minimum, g.limits); err != nil {
		n.close(ctx)
		return native{}, outline{}, g.refuse(StepVerify, err)
	}
	return n, o, nil
}

func (g *Guest) cached(ctx context.Context) (native, outline, bool) {
	s := g.sandbox.store
	if s == nil {
		return native{}, outline{}, false
	}
	e := s.find(g.cacheKey())
	if e == nil {
		return native{}, outline{}, false
	}
	n, err := s.open(ctx, e)
	if err != nil {
		e.close()
		g.logger.Warn("compile cache cannot be used, compiling the plugin anew", "error", err)
		return native{}, outline{}, false
	}
	return n, e.facts.Outline, true
}

func (g *Guest) cacheKey() string { return cacheKey(g.seed, g.sandbox.metering) }

// build verifies, rewrites and compiles a module, from its bytes on. Modules
// take turns at it: this is the part that needs processor and memory.
func (g *Guest) build(ctx context.Context, wasm []byte) (native, outline, error) {
	done, err := g.sandbox.turn(ctx)
	if err != nil {
		return native{}, outline{}, g.refuse(StepCompile, err)
	}
	defer done()
	ctx, cancel := withDeadline(ctx, g.sandbox.config.LoadTimeout)
	defer cancel()
	if wasm == nil && g.source != nil {
		if wasm, err = g.read(); err != nil {
			return native{}, outline{}, g.refuse(StepRead, err)
		}
	}
	wasm, o, err := g.rewrite(wasm)
	if err != nil {
		return native{}, outline{}, err
	}
	n, err := g.sandbox.compile(ctx, g.cacheKey(), wasm, o)
	if err != nil {
		return native{}, outline{}, g.refuse(StepCompile, err)
	}
	return n, o, nil
}

// errOtherFile is for a source that has moved on.
var errOtherFile = errors.New("the file has changed since")

func (g *Guest) read() ([]byte, error) {
	wasm, err := g.source()
	if err != nil {
		return nil, err
	}
	if digestOf(wasm) != g.seed {
		return nil, errOtherFile
	}
	return wasm, nil
}

// rewrite holds a module against the ABI and makes of it what is compiled.
func (g *Guest) rewrite(wasm []byte) ([]byte, outline, error) {
	m, err := module.Parse(wasm)
	if err != nil {
		return nil, outline{}, g.refuse(StepParse, err)
	}
	if err := verify(m, g.limits); err != nil {
		return nil, outline{}, g.refuse(StepVerify, err)
	}
	exports, err := m.GlobalExports()
	if err != nil {
		return nil, outline{}, g.refuse(StepVerify, err)
	}
	options := g.sandbox.metering
	options.Exports = exports
	wasm, _, err = meter.Rewrite(m, options)
	if err != nil {
		return nil, outline{}, g.refuse(StepVerify, err)
	}
	return wasm, outlineOf(m), nil
}

// reopen brings back code that was put to sleep, from the entry that it was
// put to sleep with; if that was damaged, from the module.
func (g *Guest) reopen(asleep native) (native, error) {
	ctx := context.Background()
	n, err := g.sandbox.store.reopen(ctx, asleep.entry)
	if err == nil {
		return n, nil
	}
	g.logger.Warn("compile cache cannot be used, compiling the plugin anew", "error", err)
	n, _, err = g.build(ctx, nil)
	if err != nil {
		return native{}, fmt.Errorf("%w; its code was given up while it was idle: put the file with the digest %s back, or a new version", err, hex.EncodeToString(g.seed[:]))
	}
	asleep.entry.close()
	return n, nil
}
