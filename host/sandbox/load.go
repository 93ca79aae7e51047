package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/sandbox/module"
)

// Plugin is what to load.
type Plugin struct {
	Name   string // a DNS label; the manifest must have the same
	Wasm   []byte // the file; not kept
	Limits Limits
	// Isolate restores instances of a standard-Go module after each call
	// too, at some hundred microseconds per MiB of its memory.
	Isolate bool
}

// loadTime is the guest's clock before its first call. It is fixed, like the
// seed, so that a module has the same image wherever and whenever it is
// loaded.
var loadTime = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// Load verifies, compiles and starts a plugin. A failure is a [*LoadError]
// that names the step, and leaves nothing behind. It takes as long as
// [Config.LoadTimeout] at most.
func (s *Sandbox) Load(ctx context.Context, p Plugin) (*Guest, error) {
	ctx, cancel := withDeadline(ctx, s.config.LoadTimeout)
	defer cancel()
	g, err := s.prepare(p)
	if err != nil {
		return nil, err
	}
	if err := g.start(ctx, p); err != nil {
		g.free(context.WithoutCancel(ctx))
		return nil, err
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
	digest := sha256.Sum256(p.Wasm)
	limits := p.Limits.WithDefaults()
	return &Guest{
		sandbox: s,
		name:    p.Name,
		digest:  hex.EncodeToString(digest[:]),
		pool:    newPool(limits.Instances),
		freed:   make(chan struct{}),
		logger:  s.config.Logger.With("plugin", p.Name),
		blueprint: blueprint{
			runtime: s.runtime,
			limits:  limits,
			seed:    digest,
		},
	}, nil
}

// start is the load, step by step.
func (g *Guest) start(ctx context.Context, p Plugin) error {
	m, err := module.Parse(p.Wasm)
	if err != nil {
		return g.refuse(StepParse, err)
	}
	if err := verify(m, g.limits); err != nil {
		return g.refuse(StepVerify, err)
	}
	wasm, err := m.ExportGlobals()
	if err != nil {
		return g.refuse(StepVerify, err)
	}
	g.describeModule(m, p.Isolate)
	if g.compiled, err = g.sandbox.compile(ctx, wasm); err != nil {
		return g.refuse(StepCompile, err)
	}
	return g.first(ctx)
}

// describeModule keeps what later steps need of the parsed module.
func (g *Guest) describeModule(m *module.Module, isolate bool) {
	g.mode = modeOf(m, isolate)
	g.minimum = m.Memories[0].Min
	if g.mode != pooled {
		for _, index := range m.MutableGlobals() {
			if m.Globals[index].Type.Number() {
				g.globals = append(g.globals, index)
			}
		}
	}
	for _, in := range m.Imports {
		g.imports = append(g.imports, in.Module+"."+in.Name)
	}
}

// first makes the first instance, reads the manifest from it, and takes the
// image.
func (g *Guest) first(ctx context.Context) error {
	pages := startPages(g.minimum, uint32(g.limits.MemoryBytes/pageBytes))
	in, output, err := g.boot(ctx, pages)
	if err != nil {
		g.manifest, _ = abi.DecodeManifest(output) // for [Sandbox.Inspect]
		return err
	}
	if g.manifest, err = readManifest(output, g.name); err != nil {
		in.close(ctx)
		return g.refuse(StepManifest, err)
	}
	if g.mode == reset {
		in.image = in.snapshot()
		g.image.Store(in.image)
	}
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
	ctx, cancel := withDeadline(ctx, g.limits.Deadline)
	defer cancel()
	c := newCall(&g.limits, loadTime, g.seed)
	c.log = g.logLine
	in, err := g.instantiate(ctx, c, pages)
	if err != nil {
		return nil, nil, g.refuse(StepInstantiate, err)
	}
	manifest, err := g.warmUp(ctx, in, c)
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
	for _, t := range []*tail{&c.stderr, &c.stdout} {
		if text := t.bytes(); text != nil {
			return ": " + bounded(text)
		}
	}
	return ""
}
