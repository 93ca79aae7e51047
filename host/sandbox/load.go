package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/internal/digest"
	"github.com/thole-dev/thole/host/sandbox/deadline"
	"github.com/thole-dev/thole/host/sandbox/native"
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
	// Size is that of the file, in bytes, for a plugin without Wasm. Small files
	// are compiled first.
	Size   int64
	Limits Limits
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
	digest, err := p.digest()
	if err != nil {
		return nil, fmt.Errorf("load plugin %q: %w", p.Name, err)
	}
	g, err := s.newGuest(p.Name, digest, p.Source, p.Limits)
	if err != nil {
		return nil, err
	}
	return s.addOrFree(ctx, g, g.startUnlessTooSlow(ctx, p))
}

// CloneWithLimits loads the module of a guest with other limits, from the
// native code that is in memory: it is neither read nor compiled again. The two
// guests are independent. Errors are those of [Sandbox.Load]; [ErrClosed] is
// also returned if g was closed.
func (s *Sandbox) CloneWithLimits(ctx context.Context, g *Guest, limits Limits) (*Guest, error) {
	clone, err := s.newGuest(g.name, g.digest, g.source, limits)
	if err != nil {
		return nil, err
	}
	if !g.code.AddOwner() {
		return s.addOrFree(ctx, clone, fmt.Errorf("load plugin %q: %w", g.name, ErrClosed))
	}
	clone.code, clone.mode, clone.globals = g.code, g.mode, g.globals
	clone.minimum, clone.beside = g.minimum, g.beside
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

// newGuest returns a guest without code.
func (s *Sandbox) newGuest(name string, digest [sha256.Size]byte, source func() ([]byte, error), limits Limits) (*Guest, error) {
	if err := limits.Validate(); err != nil {
		return nil, fmt.Errorf("load plugin %q: %w", name, err)
	}
	if !abi.ValidName(name) {
		return nil, fmt.Errorf("load plugin %q: the name is not a DNS label (lower case letters, digits, '-', at most 63): rename the file", name)
	}
	limits = limits.WithDefaults()
	metrics := s.config.Metrics(name)
	return &Guest{
		sandbox:   s,
		name:      name,
		digest:    digest,
		source:    source,
		scheduled: s.scheduler.Plugin(metrics),
		metrics:   metrics,
		pool:      newPool(limits.Instances, func() { metrics.Limited(LimitInstances) }),
		freed:     make(chan struct{}),
		logger:    s.config.Logger.With("plugin", name),
		limits:    limits,
		memory:    s.memory.Account(),
	}, nil
}

func (p *Plugin) digest() (sum [sha256.Size]byte, err error) {
	if p.Wasm != nil || p.Source == nil {
		return digest.Of(p.Wasm), nil
	}
	decoded, err := hex.DecodeString(p.Digest)
	if err != nil || len(decoded) != len(sum) {
		return sum, fmt.Errorf("digest: %q is not a SHA-256 in hex", p.Digest)
	}
	return [sha256.Size]byte(decoded), nil
}

// loadKey is what the result of a load depends on.
type loadKey struct {
	digest [sha256.Size]byte
	limits Limits
}

// maxLoadFailures bounds Sandbox.failures; the least recently used error is
// dropped.
const maxLoadFailures = 256

// notTriedAgain follows the reason in the text of a kept error.
const notTriedAgain = "it is not tried again until the file or its limits change, or the host restarts"

// startUnlessTooSlow starts the guest, unless that took too long before: another
// attempt would take as long again.
func (g *Guest) startUnlessTooSlow(ctx context.Context, p Plugin) error {
	key := loadKey{g.digest, g.limits}
	if kept, ok := g.sandbox.failures.Get(key); ok {
		before := kept.(*LoadError)
		return g.loadError(before.Step, before.Err)
	}
	_, err := g.start(ctx, p)
	failed, ok := errors.AsType[*LoadError](err)
	if !ok || !failed.tookTooLong() {
		return err
	}
	if fault, ok := errors.AsType[*Fault](err); ok {
		fault.Stdout, fault.Stderr = nil, nil // they would take memory as long as the error is kept
	}
	failed.Err = fmt.Errorf("%w; %s", failed.Err, notTriedAgain)
	g.sandbox.failures.Add(key, failed)
	return failed
}

// start gets the native code of the module and starts the guest. The report is
// that of [Guest.findOrCompile].
func (g *Guest) start(ctx context.Context, p Plugin) (moduleReport, error) {
	n, report, err := g.findOrCompile(ctx, p)
	if err != nil {
		return report, err
	}
	summary := report.Summary
	g.code = native.NewCode(n, g.reloadCode)
	g.mode = modeOf(summary)
	g.minimum, g.beside = summary.Minimum, summary.Beside
	g.globals = summary.Globals
	return report, g.startFirst(ctx)
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
	if err := g.sandbox.config.checkSections(g.manifest, in); err != nil {
		in.close(ctx)
		return g.loadError(StepManifest, err)
	}
	g.pool.grow(g.sandbox.config.waiting(g.manifest, &g.limits))
	if g.mode != modeFresh {
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

// ErrClosed is returned for calls after [Guest.Close] or [Sandbox.Close].
var ErrClosed = native.ErrClosed

// The steps of a load, in order. They are values of [LoadError.Step] and can be
// labels of a metric.
const (
	StepRead        = "read"        // the file
	StepParse       = "parse"       // the module, within the structural limits
	StepVerify      = "verify"      // exports, signatures, imports, memory
	StepCompile     = "compile"     // validation and code generation
	StepInstantiate = "instantiate" // segments and the start function
	StepInitialize  = "initialize"  // _initialize
	StepDescribe    = "describe"    // describe
	StepManifest    = "manifest"    // what describe wrote
	StepWarm        = "warm"        // warm
)

var stepVerbs = map[string]string{
	StepRead:        "read module",
	StepParse:       "parse module",
	StepVerify:      "verify module",
	StepCompile:     "compile module",
	StepInstantiate: "instantiate module",
	StepInitialize:  "run " + abi.ExportInitialize,
	StepDescribe:    "run " + abi.ExportDescribe,
	StepManifest:    "read manifest",
	StepWarm:        "run " + abi.ExportWarm,
}

// LoadError is the reason why a plugin was not loaded. Its text names the
// plugin, the symbol or field, and what to do.
type LoadError struct {
	Plugin string
	Step   string // one of the steps above
	Err    error  // a [*Fault] if guest code failed
}

func (g *Guest) loadError(step string, err error) error {
	return &LoadError{Plugin: g.name, Step: step, Err: err}
}

func (e *LoadError) Error() string {
	return fmt.Sprintf("plugin %q: %s: %v", e.Plugin, stepVerbs[e.Step], e.Err)
}

func (e *LoadError) Unwrap() error { return e.Err }

// FailureClass returns the class of the load: that of the guest's fault if its
// code ran, else [abi.ClassABI].
func (e *LoadError) FailureClass() abi.Class {
	if fault, ok := errors.AsType[*Fault](e.Err); ok {
		return fault.Class
	}
	return abi.ClassABI
}

func (e *LoadError) tookTooLong() bool {
	return errors.Is(e, deadline.ErrPassed) || errors.Is(e, native.ErrTooExpensive) || e.FailureClass() == abi.ClassTimeout
}

// Advice returns what to do about the error, or "" if its text contains that.
func (e *LoadError) Advice() string {
	_, inManifest := errors.AsType[*rawjson.Error](e.Err)
	fault, inGuest := errors.AsType[*Fault](e.Err)
	refused, inFile := errors.AsType[*prepareError](e.Err)
	switch {
	case errors.Is(e.Err, ErrHostMemory):
		return ""
	case inFile:
		return refused.Advice
	case inManifest:
		return "correct what the plugin registers, or build it with the SDK of this host's version"
	case inGuest:
		return fault.loadAdvice()
	}
	return ""
}

func (f *Fault) loadAdvice() string {
	switch f.Class {
	case abi.ClassOutOfMemory:
		return "let the plugin need less memory when it is loaded, or raise limits.memoryMiB in its policy or the host's configuration"
	case abi.ClassStackOverflow:
		return "look for recursion without an end, and for code that nests deeply, such as a regular expression with large repetitions: build the plugin by `thole build`, whose stack has 192 KiB, or by standard Go"
	case abi.ClassTimeout:
		return "let the plugin do less when it is loaded, or raise limits.timeout in its policy or the host's configuration"
	default:
		return "this is the plugin's own code, which runs when it is loaded: run its tests"
	}
}
