package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/sandbox/deadline"
	"github.com/thole-dev/thole/host/sandbox/native"
	"github.com/thole-dev/thole/host/sandbox/wasi"
	"github.com/thole-dev/thole/host/sanitize"
)

// Plugin is a plugin to load.
type Plugin struct {
	Name string // a DNS label; the name in the manifest must be the same
	Wasm []byte // the file; not kept
	// Source reads the file again. It is called at any time until the guest is
	// closed, when the native code was freed because the plugin was idle, and
	// has been damaged on disk since. It may fail then, or return another file,
	// which is a failure too. If it is nil, native code is never freed.
	Source func() ([]byte, error)
	// Digest is the SHA-256 of the file in hex, for a plugin without Wasm:
	// Source is then called only if the cache does not have the native code.
	Digest string
	Limits Limits
	// Isolate makes the sandbox also reset the instances of standard Go
	// modules after each call, which takes longer than most reconciles run.
	Isolate bool
}

// loadTime is the guest's clock before its first call. It is fixed, like the
// seed, so that a module has the same image wherever and whenever it is loaded.
var loadTime = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// Load verifies, compiles and starts a plugin. If the module is the reason for a
// failure, the error is a [*LoadError] with the step; it is of another type if
// other fields of p are invalid, and [ErrClosed] after [Sandbox.Close]. A failed
// load leaves nothing behind. A module that took too long is refused from then
// on without another attempt.
func (s *Sandbox) Load(ctx context.Context, p Plugin) (*Guest, error) {
	g, err := s.newGuest(p)
	if err != nil {
		return nil, err
	}
	err = s.failures.check(g)
	if err == nil {
		err = s.failures.note(g, g.start(ctx, p))
	}
	return s.addOrFree(ctx, g, err)
}

// CloneWithLimits loads the module of a guest with other limits, from the
// native code that is in memory: it is neither read nor compiled again. The two
// guests are independent. Errors are those of [Sandbox.Load]; [ErrClosed] is
// also returned if g was closed.
func (s *Sandbox) CloneWithLimits(ctx context.Context, g *Guest, limits Limits) (*Guest, error) {
	clone, err := s.newGuest(Plugin{Name: g.name, Digest: g.digest, Source: g.source, Limits: limits})
	if err != nil {
		return nil, err
	}
	if !g.code.AddOwner() {
		return s.addOrFree(ctx, clone, fmt.Errorf("load plugin %q: %w", g.name, ErrClosed))
	}
	clone.code, clone.seed, clone.digest = g.code, g.seed, g.digest
	clone.mode, clone.minimum, clone.globals = g.mode, g.minimum, g.globals
	return s.addOrFree(ctx, clone, clone.startFirst(ctx))
}

// addOrFree ends a load: it adds the guest if there is no error, and frees it if
// there is one.
func (s *Sandbox) addOrFree(ctx context.Context, g *Guest, err error) (*Guest, error) {
	if err == nil {
		err = s.add(g)
	}
	if err != nil {
		g.free(context.WithoutCancel(ctx))
		return nil, err
	}
	return g, nil
}

// newGuest checks the fields of p other than the module.
func (s *Sandbox) newGuest(p Plugin) (*Guest, error) {
	if err := p.Limits.Validate(); err != nil {
		return nil, fmt.Errorf("load plugin %q: %w", p.Name, err)
	}
	if !abi.ValidName(p.Name) {
		return nil, fmt.Errorf("load plugin %q: the name is not a DNS label (lower case letters, digits, '-', at most 63): rename the file", p.Name)
	}
	digest, err := p.digest()
	if err != nil {
		return nil, fmt.Errorf("load plugin %q: %w", p.Name, err)
	}
	limits := p.Limits.WithDefaults()
	metrics := s.config.Metrics(p.Name)
	return &Guest{
		sandbox:   s,
		name:      p.Name,
		digest:    hex.EncodeToString(digest[:]),
		source:    p.Source,
		scheduled: s.scheduler.Plugin(metrics),
		metrics:   metrics,
		pool:      newPool(limits.Instances, func() { metrics.Limited(LimitInstances) }),
		freed:     make(chan struct{}),
		logger:    s.config.Logger.With("plugin", p.Name),
		blueprint: blueprint{
			limits: limits,
			seed:   digest,
			memory: s.memory.Account(),
		},
	}, nil
}

func (p *Plugin) digest() (digest [sha256.Size]byte, err error) {
	if p.Wasm != nil || p.Source == nil {
		return sha256.Sum256(p.Wasm), nil
	}
	decoded, err := hex.DecodeString(p.Digest)
	if err != nil || len(decoded) != len(digest) {
		return digest, fmt.Errorf("digest: %q is not a SHA-256 in hex", p.Digest)
	}
	return [sha256.Size]byte(decoded), nil
}

// start gets the native code of the module and starts the guest.
func (g *Guest) start(ctx context.Context, p Plugin) error {
	n, summary, err := g.findOrCompile(ctx, p.Wasm)
	if err != nil {
		return err
	}
	g.code = native.NewCode(n, g.reloadCode)
	g.mode = modeOf(summary, p.Isolate)
	g.minimum = summary.Minimum
	if g.mode != modePooled {
		g.globals = summary.Globals
	}
	return g.startFirst(ctx)
}

// startFirst makes the first instance, reads the manifest from it, and takes the
// image.
func (g *Guest) startFirst(ctx context.Context) error {
	in, output, err := g.startInstance(ctx, g.limits.startPages(g.minimum))
	if err != nil {
		g.manifest, _ = abi.DecodeManifest(output) // for [Sandbox.Inspect]
		return err
	}
	if g.manifest, err = readManifest(output, g.name); err != nil {
		in.close(ctx)
		return g.loadError(StepManifest, err)
	}
	if g.mode == modeReset {
		in.takeImage()
		if err := g.setImage(in.image); err != nil {
			in.close(ctx)
			return g.loadError(StepInstantiate, err)
		}
	}
	in.used = time.Now()
	if g.mode == modeFresh {
		in.close(ctx)
	} else {
		g.pool.put(in)
	}
	g.created.Add(1)
	return nil
}

// startInstance makes an instance that is ready for its first call, in an
// execution slot. It returns what describe wrote, also if a later step failed.
func (g *Guest) startInstance(ctx context.Context, pages uint32) (*instance, []byte, error) {
	ctx, task, err := g.acquireSlot(ctx)
	if err != nil {
		return nil, nil, g.loadError(StepInstantiate, err)
	}
	defer task.Release()
	ctx, cancel := deadline.With(ctx, g.limits.Deadline)
	defer cancel()
	c := newCall(&g.limits, loadTime, g.seed)
	c.log = g.logLine
	in, err := g.instantiate(ctx, c, pages)
	if err != nil {
		return nil, nil, g.loadError(StepInstantiate, err)
	}
	manifest, err := g.initialize(ctx, in, c)
	g.reportLimits(c, in.linear)
	if err != nil {
		in.close(ctx)
		return nil, manifest, err
	}
	return in, manifest, nil
}

// initialize runs _initialize, describe and warm, and returns what describe
// wrote.
func (g *Guest) initialize(ctx context.Context, in *instance, c *call) (manifest []byte, err error) {
	if _, err := in.runExport(ctx, c, abi.ExportInitialize); err != nil {
		return nil, g.loadError(StepInitialize, err)
	}
	c.output, c.outputCalled = nil, false
	code, err := in.runExport(ctx, c, abi.ExportDescribe)
	switch {
	case err != nil:
		return nil, g.loadError(StepDescribe, err)
	case code != 0:
		return nil, g.loadError(StepDescribe, fmt.Errorf("it returned %d, not 0%s", code, c.printed()))
	case !c.outputCalled:
		return nil, g.loadError(StepDescribe, errors.New("it wrote no manifest: call output before it returns 0"))
	}
	manifest, c.output = c.output, nil
	if _, err := in.runExport(ctx, c, abi.ExportWarm); err != nil {
		return manifest, g.loadError(StepWarm, err)
	}
	return manifest, nil
}

// maxQuote bounds what is quoted of a guest's stdout and stderr, in bytes.
const maxQuote = 512

// printed quotes what a guest has printed, for an error without a trap.
func (c *call) printed() string {
	for _, t := range []*wasi.Tail{&c.process.Stderr, &c.process.Stdout} {
		if text := t.Bytes(); text != nil {
			return ": " + sanitize.Truncate(strings.TrimSpace(string(text)), maxQuote)
		}
	}
	return ""
}

// readManifest decodes what describe wrote. The name must be that of the file,
// because policy, finalizers and field managers are named after it. A manifest
// of another name is returned besides the error.
func readManifest(text []byte, plugin string) (*abi.Manifest, error) {
	m, err := abi.DecodeManifest(text)
	if err != nil {
		return nil, err
	}
	if m.Name != plugin {
		return m, fmt.Errorf("name is %q, but the file is %s.wasm: the two must be equal, rename one", m.Name, plugin)
	}
	return m, nil
}
