// Package inspect describes the file of a plugin, and what the plugin needs. It
// runs no more of the plugin than a load does, and needs no cluster. It is the
// implementation of `thole inspect` and `thole rbac`.
//
//	inspect.go        from the file to the report, in the steps of a load
//	report.go         the report, with its JSON form
//	status.go         what the host writes into the status
//	followed.go       what a controller follows, as text
//	rights.go         the RBAC rules that the host needs for each controller
//	rbac.go           the service accounts, roles and bindings for a plugin
//	rows.go           the report as rows of text
//	controllerrows.go the rows of what a controller requests
//	table.go          the report as a table, JSON or YAML
package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/cache/scope"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/rights"
	"github.com/thole-dev/thole/host/sandbox"
	"github.com/thole-dev/thole/host/source"
)

// Options configure [File].
type Options struct {
	// Host is the configuration of the host that would load the plugin. Its
	// limits apply, and the compiled code is kept in its CacheDir if that is
	// set.
	Host config.Config
	// Cluster is the cluster in which the resources of the plugin's kinds are
	// looked up. Without it they are guessed.
	Cluster *rest.Config
	// ReadPolicy reads the policy beside the file, with nil if there is none: see
	// [config.Config.ReadPolicy]. Without it no policy is read.
	ReadPolicy func(plugin string, text []byte) (config.Policy, error)
	// Compiler is a program with arguments that runs [sandbox.Compiler].
	// Without it the module is compiled in this process.
	Compiler []string
	// Capabilities are those of the host, and Rows are further ones of each controller; the text is "" if the
	// controller does not use the capability.
	Capabilities []sandbox.Capability
	Rows         []func(c *abi.Controller) (title, text string)
	// Rules returns what the account of the host needs for a manifest because of the capabilities; nil: nothing.
	Rules func(m *abi.Manifest, resources rights.Resources) []rights.Rule
	// Notes returns what capabilities note of a module; nil: nothing.
	Notes func(module []byte) []string
}

// Steps of [Load] beside those of host/sandbox.
const (
	stepRead    = "read"    // the host would ignore the file
	stepPolicy  = "policy"  // the policy beside the file is invalid, or pins another module
	stepLoad    = "load"    // the name or the limits are invalid, whatever the file holds
	stepOverlap = "overlap" // two controllers write the same condition
	stepStart   = "start"   // a kind cannot be listed or patched, or a selector cannot be used
)

// File reports on a file, of which it runs as much as a load does. It fails if
// the file or the cluster cannot be read. A plugin that would be refused is not
// a failure, see [Report.Refused].
func File(ctx context.Context, path string, o Options) (*Report, error) {
	limit := int64(o.Host.WithDefaults().Limits.ModuleMiB) << 20
	wasm, size, err := read(path, limit)
	if err != nil {
		return nil, fmt.Errorf("inspect %s: %w", path, err)
	}
	r := &Report{File: path, Name: strings.TrimSuffix(filepath.Base(path), extension), Size: size, Load: Load{OK: true}}
	r.refuse(stepRead, eligible(path, size, limit))
	if size > limit {
		return r, nil // wasm is not the whole file
	}
	if o.Notes != nil {
		r.Notes = o.Notes(wasm)
	}
	if err := r.load(ctx, wasm, o); err != nil {
		return nil, fmt.Errorf("inspect %s: %w", path, err)
	}
	return r, nil
}

const extension = ".wasm"

// eligible returns an error if a host would not read the file in its directory.
func eligible(path string, size, limit int64) error {
	base := filepath.Base(path)
	switch _, ok := source.PluginName(base); {
	case !ok:
		return fmt.Errorf("%s is ignored: plugins are in files named <name>%s, and not in hidden or temporary ones: rename it", base, extension)
	case size > limit:
		return fmt.Errorf("%s is larger than %d MiB: build it with TinyGo and -no-debug, or raise limits.moduleMiB in the file of --config if you trust it", base, limit>>20)
	}
	return nil
}

// read returns the content of a file up to what a host reads, and its size.
func read(path string, limit int64) (wasm []byte, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, withoutPath(err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, 0, withoutPath(err)
	case !info.Mode().IsRegular():
		return nil, 0, errors.New("not a regular file: name the .wasm file of a plugin")
	}
	wasm, err = io.ReadAll(io.LimitReader(f, limit+1))
	return wasm, max(info.Size(), int64(len(wasm))), withoutPath(err)
}

// withoutPath removes the path from an error of the file system, because the
// caller adds it.
func withoutPath(err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return e.Err
	}
	return err
}

// Refused returns why the host would not load the plugin, nil if it would.
func (r *Report) Refused() error {
	if r.Load.OK {
		return nil
	}
	return errors.New(r.Load.Error)
}

// refuse records why the plugin would be refused. The first reason counts.
func (r *Report) refuse(step string, err error) {
	if err != nil && r.Load.OK {
		r.Load = Load{Step: step, Error: err.Error(), WaitsFor: r.Load.WaitsFor, Advice: r.Load.Advice}
	}
}

// load loads the plugin in a sandbox, and adds the result to the report.
func (r *Report) load(ctx context.Context, wasm []byte, o Options) error {
	allowed, err := r.readPolicy(o)
	if err != nil {
		return err
	}
	s, err := sandbox.New(ctx, sandbox.Config{CacheDir: o.Host.CacheDir, Compiler: o.Compiler, Capabilities: o.Capabilities})
	if err != nil {
		return err
	}
	found := s.Inspect(ctx, sandbox.Plugin{Name: r.Name, Wasm: wasm, Limits: allowed.Limits.Sandbox()})
	if err := errors.Join(context.Cause(ctx), s.Close(context.WithoutCancel(ctx))); err != nil {
		return err
	}
	r.Digest = found.Digest
	if !allowed.Pins(r.Digest) {
		r.refuse(stepPolicy, fmt.Errorf("%s pins %s, and the file has sha256:%s: write that there, or use the file that it pins", filepath.Base(r.PolicyFile), allowed.Digest, r.Digest))
	}
	r.refuse(loadStep(found.Err), withAdvice(found.Err))
	r.addModule(found.Module, o.Capabilities)
	return r.addManifest(ctx, found.Manifest, allowed, o)
}

// readPolicy returns the policy of the plugin: that of the file beside it, if there is one. A policy that is
// refused is no error, and the limits of the host apply.
func (r *Report) readPolicy(o Options) (p policy, err error) {
	p.Limits = o.Host.WithDefaults().Limits
	if o.ReadPolicy == nil {
		return p, nil
	}
	path := strings.TrimSuffix(r.File, extension) + ".yaml"
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return p, err
	}
	if err == nil {
		r.PolicyFile = path
		if err := source.CheckPolicy(text); err != nil {
			r.refuse(stepRead, fmt.Errorf("read policy %s: %w", filepath.Base(path), err))
		}
	}
	read, err := o.ReadPolicy(r.Name, text)
	if err != nil {
		r.refuse(stepPolicy, err)
		return p, nil
	}
	return read, nil
}

// withAdvice adds to an error of a load what the plugin printed and what to do, as a host
// logs it.
func withAdvice(err error) error {
	if fault, ok := errors.AsType[*sandbox.Fault](err); ok && fault.Printed != "" {
		err = fmt.Errorf("%w; it printed: %s", err, fault.Printed)
	}
	if refused, ok := errors.AsType[*sandbox.LoadError](err); ok && refused.Advice() != "" {
		return fmt.Errorf("%w; %s", err, refused.Advice())
	}
	return err
}

func loadStep(err error) string {
	if refused, ok := errors.AsType[*sandbox.LoadError](err); ok {
		return refused.Step
	}
	return stepLoad
}

func (r *Report) addModule(m *sandbox.ModuleInfo, capabilities []sandbox.Capability) {
	if m == nil {
		return
	}
	r.ABIVersions = m.Versions
	r.Toolchain = toolchain(m)
	r.Instances = instances(m)
	r.Memory = &Memory{Initial: m.Memory.Initial, Start: m.Memory.Start, Maximum: m.Memory.Maximum, Limit: m.Memory.Limit}
	meanings, ofCapabilities := maps.Clone(exportMeanings), map[string]string{}
	for _, c := range capabilities {
		for _, e := range c.Exports {
			meanings[e.Name] = e.Meaning
		}
		for _, in := range c.Imports {
			ofCapabilities[in.Name] = in.Meaning
		}
	}
	for _, s := range m.Imports {
		imported := Symbol{Module: s.Module, Name: s.Name, Type: s.Type, Meaning: meaning(s.Module, s.Name), Problem: s.Problem}
		if imported.Meaning == "" {
			imported.Meaning = ofCapabilities[s.Name]
		}
		if !slices.Contains(r.Imports, imported) { // compilers may import a function twice
			r.Imports = append(r.Imports, imported)
		}
	}
	for _, s := range m.Exports {
		if s.Type != "" || s.Problem != "" {
			r.Exports = append(r.Exports, Symbol{Name: s.Name, Type: s.Type, Required: s.Required, Meaning: meanings[s.Name], Problem: s.Problem})
		}
	}
}

type policy = config.Policy

// addManifest adds the manifest to the report, and what its controllers need.
func (r *Report) addManifest(ctx context.Context, m *abi.Manifest, allowed policy, o Options) error {
	if m == nil {
		return nil
	}
	r.Manifest = abi.EncodeManifest(m)
	resources, err := findAll(ctx, o.Cluster, m)
	if err != nil {
		return err
	}
	r.manifest, r.resources, r.rules = m, resources, o.Rules
	r.refuse(stepOverlap, object.ConditionWriters{}.Add(m.Name, m.Controllers))
	_, err = scope.OfManifest(m, nil)
	r.refuse(stepStart, err)
	if needs := allowed.Missing(m, resourcesOf(resources), o.Host.Sections); needs.Any() {
		r.Policy = &needs
	}
	for i := range m.Controllers {
		c := &m.Controllers[i]
		r.Rights = append(r.Rights, rightsOf(m, c, resources, o.Rules))
		rows, status := describe(m, c, allowed.Limits, o.Rows), statusOf(c, resources[c.For.Kind])
		rows.rows = append(rows.rows, []string{"Status", status.row()})
		r.controllers, r.Status = append(r.controllers, rows), append(r.Status, status)
		r.refuse(stepStart, checkConditions(c))
		r.refuse(stepStart, object.CheckOwned(c, func(kind abi.Kind) (object.Resource, bool) {
			found := resources[kind]
			return found.Resource, !found.guessed
		}))
		r.checkStart(c, o.Host.Sections, resources)
	}
	return nil
}

// checkStart adds the kinds that the cluster does not serve, or not with the verbs that the
// controller needs.
func (r *Report) checkStart(c *abi.Controller, sections []config.Section, resources map[abi.Kind]resource) {
	for w := range c.Follows() {
		err := resources[w.Kind].err
		if _, unlistable := errors.AsType[*cache.NotListableError](err); unlistable {
			r.refuse(stepStart, err)
		} else if err == nil {
			r.refuse(stepStart, resources[w.Kind].Cannot(c, config.UsesOf(c, sections).Patches))
		} else if !slices.Contains(r.Load.WaitsFor, w.Kind.String()) {
			r.Load.WaitsFor, r.Load.Advice = append(r.Load.WaitsFor, w.Kind.String()), append(r.Load.Advice, strings.TrimSuffix(err.Error(), "; retrying"))
		}
	}
}

// kinds returns every kind that a manifest names.
func kinds(m *abi.Manifest) (all []abi.Kind) {
	for _, c := range m.Controllers {
		for w := range c.Follows() {
			all = append(all, w.Kind)
		}
		all = append(all, c.Writes...)
	}
	slices.SortFunc(all, func(a, b abi.Kind) int {
		return cmp.Or(cmp.Compare(a.APIVersion, b.APIVersion), cmp.Compare(a.Kind, b.Kind))
	})
	return slices.Compact(all)
}
