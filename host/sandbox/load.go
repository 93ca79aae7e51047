package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/sandbox/deadline"
	"github.com/thole-dev/thole/host/sandbox/native"
	"github.com/thole-dev/thole/host/sandbox/wasi"
)

// Plugin is what to load.
type Plugin struct {
	Name string // a DNS label; the manifest must have the same
	Wasm []byte // the file; not kept
	// Source reads the file again, for a plugin whose code was given up while
	// it was idle and has been damaged on disk since. It may fail then, or
	// answer another file, which is a failure too. nil: the code is not given
	// up. It may be called at any time until the guest is closed.
	Source func() ([]byte, error)
	// Digest is the SHA-256 of the file in hex, for a plugin that is given
	// without Wasm: Source is then asked only if the cache does not have it.
	Digest string
	Limits Limits
	// Isolate restores instances of a standard-Go module after each call
	// too, which takes longer than most reconciles run.
	Isolate bool
}

// loadTime is the guest's clock before its first call. It is fixed, like the
// seed, so that a module has the same image wherever and whenever it is
// loaded.
var loadTime = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// Load verifies, compiles and starts a plugin. What is wrong with the module is
// a [*LoadError] that names the step; what is wrong with the other fields of p
// is an error of another type, as is [ErrClosed]. A failure leaves nothing
// behind. A file that took too long is refused from then on without being
// tried.
func (s *Sandbox) Load(ctx context.Context, p Plugin) (*Guest, error) {
	g, err := s.prepare(p)
	if err != nil {
		return nil, err
	}
	if err := s.slow.refuse(g); err != nil {
		g.free(context.WithoutCancel(ctx))
		return nil, err
	}
	if err := g.start(ctx, p); err != nil {
		g.free(context.WithoutCancel(ctx))
		return nil, s.slow.note(g, err)
	}
	if err := s.add(g); err != nil {
		g.free(context.WithoutCancel(ctx))
		return nil, fmt.Errorf("load plugin %q: %w", p.Name, err)
	}
	return g, nil
}

// prepare checks what the caller gave, before the module is looked at.
func (s *Sandbox) prepare(p Plugin) (*Guest, error) {
	if err := p.Limits.Validate(); err != nil {
		return nil, fmt.Errorf("load plugin %q: %w", p.Name, err)
	}
	if !abi.ValidName(p.Name) {
		return nil, fmt.Errorf("load plugin %q: the name must be a DNS label (lower case letters, digits and dashes, at most 63): rename the file", p.Name)
	}
	digest, err := p.digest()
	if err != nil {
		return nil, fmt.Errorf("load plugin %q: %w", p.Name, err)
	}
	limits := p.Limits.WithDefaults()
	metrics := s.config.Metrics(p.Name)
	return &Guest{
		sandbox: s,
		name:    p.Name,
		digest:  hex.EncodeToString(digest[:]),
		source:  p.Source,
		line:    s.slots.Plugin(metrics),
		metrics: metrics,
		pool:    newPool(limits.Instances, func() { metrics.Limited(LimitInstances) }),
		freed:   make(chan struct{}),
		logger:  s.config.Logger.With("plugin", p.Name),
		blueprint: blueprint{
			limits: limits,
			seed:   digest,
			memory: s.memory.Share(),
		},
	}, nil
}

func (p *Plugin) digest() (digest [sha256.Size]byte, err error) {
	if p.Wasm != nil || p.Source == nil {
		return sha256.Sum256(p.Wasm), nil
	}
	decoded, err := hex.DecodeString(p.Digest)
	if err != nil || len(decoded) != len(digest) {
		return digest, fmt.Errorf("digest %q is not a SHA-256 in hex", p.Digest)
	}
	return [sha256.Size]byte(decoded), nil
}

// start is the load, step by step.
func (g *Guest) start(ctx context.Context, p Plugin) error {
	n, o, err := g.fetch(ctx, p.Wasm)
	if err != nil {
		return err
	}
	g.code = native.NewCode(n, g.reopen)
	g.outline(o, p.Isolate)
	return g.first(ctx)
}

// outline keeps what later steps need of the module's structure.
func (g *Guest) outline(o outline, isolate bool) {
	g.mode = modeOf(o, isolate)
	g.minimum = o.Minimum
	g.imports = o.Imports
	if g.mode != pooled {
		g.globals = o.Globals
	}
}

// first makes the first instance, reads the manifest from it, and takes the
// image.
func (g *Guest) first(ctx context.Context) error {
	in, output, err := g.boot(ctx, g.limits.startPages(g.minimum))
	if err != nil {
		g.manifest, _ = abi.DecodeManifest(output) // for [Sandbox.Inspect]
		return err
	}
	if g.manifest, err = readManifest(output, g.name); err != nil {
		in.close(ctx)
		return g.refuse(StepManifest, err)
	}
	if g.mode == reset {
		in.takeImage()
		if err := g.setImage(in.image); err != nil {
			in.close(ctx)
			return g.refuse(StepInstantiate, err)
		}
	}
	in.used = time.Now()
	if g.mode == fresh {
		in.close(ctx)
	} else {
		g.pool.put(in)
	}
	g.created.Add(1)
	return nil
}

// boot makes an instance that is ready for its first call, and answers what
// describe wrote, also if it failed later.
func (g *Guest) boot(ctx context.Context, pages uint32) (*instance, []byte, error) {
	ctx, turn, err := g.takeTurn(ctx)
	if err != nil {
		return nil, nil, g.refuse(StepInstantiate, err)
	}
	defer turn.Release()
	ctx, cancel := deadline.With(ctx, g.limits.Deadline)
	defer cancel()
	c := newCall(&g.limits, loadTime, g.seed)
	c.log = g.logLine
	in, err := g.instantiate(ctx, c, pages)
	if err != nil {
		return nil, nil, g.refuse(StepInstantiate, err)
	}
	manifest, err := g.warmUp(ctx, in, c)
	g.countHits(c, in.linear)
	if err != nil {
		in.close(ctx)
		return nil, manifest, err
	}
	return in, manifest, nil
}

// warmUp runs _initialize, describe and warm.
func (g *Guest) warmUp(ctx context.Context, in *instance, c *call) (manifest []byte, err error) {
	if _, _, err := in.run(ctx, c, abi.ExportInitialize); err != nil {
		return nil, g.refuse(StepInitialize, err)
	}
	c.output, c.outputCalls = nil, 0
	code, _, err := in.run(ctx, c, abi.ExportDescribe)
	switch {
	case err != nil:
		return nil, g.refuse(StepDescribe, err)
	case code != 0:
		return nil, g.refuse(StepDescribe, fmt.Errorf("it answered %d, not 0%s", code, c.said()))
	case c.outputCalls == 0:
		return nil, g.refuse(StepDescribe, fmt.Errorf("it wrote no manifest: call output before it returns 0"))
	}
	manifest, c.output = c.output, nil
	if _, _, err := in.run(ctx, c, abi.ExportWarm); err != nil {
		return manifest, g.refuse(StepWarm, err)
	}
	return manifest, nil
}

func (g *Guest) refuse(step string, err error) error {
	return &LoadError{Plugin: g.name, Step: step, Err: err}
}

// said quotes what a guest wrote before it gave up politely.
func (c *call) said() string {
	for _, t := range []*wasi.Tail{&c.process.Stderr, &c.process.Stdout} {
		if text := t.Bytes(); text != nil {
			return ": " + bounded(text)
		}
	}
	return ""
}
