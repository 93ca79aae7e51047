package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/thole-dev/thole/host/sandbox/deadline"
	"github.com/thole-dev/thole/host/sandbox/meter"
	"github.com/thole-dev/thole/host/sandbox/module"
	"github.com/thole-dev/thole/host/sandbox/native"
)

// Compiler is the program that [Config.Compiler] names: see [native.Compiler].
func Compiler(ctx context.Context, args []string, stdin io.Reader, stderr io.Writer) int {
	return native.Compiler(ctx, args, stdin, stderr)
}

// fetch gets the guest's code: from the cache on disk, else it is compiled.
// wasm is nil if it is to be read when it is needed.
func (g *Guest) fetch(ctx context.Context, wasm []byte) (native.Module, outline, error) {
	n, o, ok := g.cached(ctx)
	if !ok {
		return g.build(ctx, wasm)
	}
	if err := verifyMinimum(o.Minimum, g.limits); err != nil {
		n.Close(ctx)
		return native.Module{}, outline{}, g.refuse(StepVerify, err)
	}
	return n, o, nil
}

func (g *Guest) cached(ctx context.Context) (native.Module, outline, bool) {
	n, note, err := g.sandbox.store.Find(ctx, g.cacheKey())
	if errors.Is(err, fs.ErrNotExist) {
		return native.Module{}, outline{}, false
	}
	var o outline
	if err == nil {
		if err = json.Unmarshal(note, &o); err == nil {
			return n, o, true
		}
		n.Close(ctx)
	}
	g.logger.Warn(cacheUnusable, "error", err)
	return native.Module{}, outline{}, false
}

const cacheUnusable = "compile cache cannot be used, compiling the plugin anew"

func (g *Guest) cacheKey() string { return cacheKey(g.seed, g.sandbox.metering) }

// turn waits until no other module is compiled. done ends the turn.
func (s *Sandbox) turn(ctx context.Context) (done func(), err error) {
	select {
	case s.compiling <- struct{}{}:
		return func() { <-s.compiling }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for other modules: %w", context.Cause(ctx))
	}
}

// build verifies, rewrites and compiles a module, from its bytes on. Modules
// take turns at it: this is the part that needs processor and memory.
func (g *Guest) build(ctx context.Context, wasm []byte) (native.Module, outline, error) {
	done, err := g.sandbox.turn(ctx)
	if err != nil {
		return native.Module{}, outline{}, g.refuse(StepCompile, err)
	}
	defer done()
	ctx, cancel := deadline.With(ctx, g.sandbox.config.LoadTimeout)
	defer cancel()
	if wasm == nil && g.source != nil {
		if wasm, err = g.read(); err != nil {
			return native.Module{}, outline{}, g.refuse(StepRead, err)
		}
	}
	wasm, o, err := g.rewrite(wasm)
	if err != nil {
		return native.Module{}, outline{}, err
	}
	note, err := json.Marshal(o)
	if err != nil {
		return native.Module{}, outline{}, g.refuse(StepCompile, err)
	}
	n, err := g.sandbox.store.Compile(ctx, g.cacheKey(), wasm, note)
	if err != nil {
		return native.Module{}, outline{}, g.refuse(StepCompile, err)
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
	if sha256.Sum256(wasm) != g.seed {
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
func (g *Guest) reopen(asleep native.Module) (native.Module, error) {
	ctx := context.Background()
	n, err := g.sandbox.store.Reopen(ctx, asleep)
	if err == nil {
		return n, nil
	}
	g.logger.Warn(cacheUnusable, "error", err)
	n, _, err = g.build(ctx, nil)
	if err != nil {
		return native.Module{}, fmt.Errorf("%w; its code was given up while it was idle: put the file with the digest %s back, or a new version", err, hex.EncodeToString(g.seed[:]))
	}
	asleep.Close(ctx)
	return n, nil
}
