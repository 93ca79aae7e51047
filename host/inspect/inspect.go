package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/sandbox"
	"github.com/thole-dev/thole/host/source"
)

// Options say for which host and cluster a file is looked at.
type Options struct {
	// Host is the configuration of the host that would load the plugin: its
	// limits count, and its CacheDir keeps the compiled code if it is set.
	Host config.Config
	// Cluster is asked where it serves the plugin's kinds; nil: resources are
	// guessed.
	Cluster *rest.Config
	// Compiler is a program with arguments that runs [sandbox.Compiler]; nil:
	// the module is compiled in this process.
	Compiler []string
}

// Steps of [Load] beside those of host/sandbox.
const (
	stepRead    = "read"    // the file is none that the host looks at
	stepLoad    = "load"    // it cannot be a plugin, whatever is in it
	stepOverlap = "overlap" // its controllers write the same condition
	stepStart   = "start"   // a kind cannot be followed
)

// File looks at a file and runs as much of it as a load does. The error is
// about the file or the cluster, which could not be read; that the plugin
// would be refused is [Report.Refused].
func File(ctx context.Context, path string, o Options) (*Report, error) {
	wasm, size, err := read(path)
	if err != nil {
		return nil, fmt.Errorf("inspect %s: %w", path, err)
	}
	r := &Report{File: path, Name: strings.TrimSuffix(filepath.Base(path), extension), Size: size, Load: Load{OK: true}}
	r.refuse(stepRead, eligible(path, size))
	if size > source.MaxFile {
		return r, nil // more than is read of any file
	}
	if err := r.examine(ctx, wasm, o); err != nil {
		return nil, fmt.Errorf("inspect %s: %w", path, err)
	}
	return r, nil
}

const extension = ".wasm"

// eligible says why a host would not look into a file of its directory, as
// host/source does.
func eligible(path string, size int64) error {
	base := filepath.Base(path)
	switch {
	case !strings.HasSuffix(base, extension), strings.HasPrefix(base, "."):
		return fmt.Errorf("%s is not looked at: plugins are in files named <name>%s, and not in hidden ones: rename it", base, extension)
	case size > source.MaxFile:
		return fmt.Errorf("%s is larger than %d MiB: build it with TinyGo and -no-debug", base, source.MaxFile>>20)
	}
	return nil
}

// read returns the content of a file, cut behind what a host reads, and its
// size.
func read(path string) (wasm []byte, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, bare(err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, 0, bare(err)
	case !info.Mode().IsRegular():
		return nil, 0, errors.New("is no regular file: name the .wasm file of a plugin")
	}
	wasm, err = io.ReadAll(io.LimitReader(f, source.MaxFile+1))
	return wasm, max(info.Size(), int64(len(wasm))), bare(err)
}

// bare is an error of the file system without the path, which is told anyway.
func bare(err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return e.Err
	}
	return err
}

// Refused is why the host would not load the plugin, nil if it would.
func (r *Report) Refused() error {
	if r.Load.OK {
		return nil
	}
	return errors.New(r.Load.Error)
}

// refuse notes the first reason against the plugin.
func (r *Report) refuse(step string, err error) {
	if err != nil && r.Load.OK {
		r.Load = Load{Step: step, Error: err.Error(), WaitsFor: r.Load.WaitsFor}
	}
}

// examine loads the plugin, and tells what was seen.
func (r *Report) examine(ctx context.Context, wasm []byte, o Options) error {
	config := o.Host.WithDefaults()
	s, err := sandbox.New(ctx, sandbox.Config{CacheDir: o.Host.CacheDir, Compiler: o.Compiler})
	if err != nil {
		return err
	}
	seen := s.Inspect(ctx, sandbox.Plugin{Name: r.Name, Wasm: wasm, Limits: config.Limits.Sandbox()})
	if err := errors.Join(context.Cause(ctx), s.Close(context.WithoutCancel(ctx))); err != nil {
		return err
	}
	r.Digest = seen.Digest
	r.refuse(loadStep(seen.Err), advised(seen.Err))
	r.module(seen.Module)
	return r.manifest(ctx, seen.Manifest, config, o.Cluster)
}

// advised is an error of a load with what to do about it, as a host says it.
func advised(err error) error {
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

func (r *Report) module(m *sandbox.ModuleInfo) {
	if m == nil {
		return
	}
	r.ABIVersions = m.Versions
	r.Toolchain = toolchain(m)
	r.Instances = instances(m)
	r.Memory = &Memory{Initial: m.Memory.Initial, Start: m.Memory.Start, Maximum: m.Memory.Maximum, Limit: m.Memory.Limit}
	for _, s := range m.Imports {
		imported := Symbol{Module: s.Module, Name: s.Name, Type: s.Type, Meaning: meaning(s.Module, s.Name), Problem: s.Problem}
		if !slices.Contains(r.Imports, imported) { // one may be imported twice
			r.Imports = append(r.Imports, imported)
		}
	}
	for _, s := range m.Exports {
		if s.Type != "" || s.Problem != "" {
			r.Exports = append(r.Exports, Symbol{Name: s.Name, Type: s.Type, Required: s.Required, Meaning: exportWords[s.Name], Problem: s.Problem})
		}
	}
}

// manifest tells what the plugin says of itself and needs for it.
func (r *Report) manifest(ctx context.Context, m *abi.Manifest, config config.Config, cluster *rest.Config) error {
	if m == nil {
		return nil
	}
	r.Manifest = abi.EncodeManifest(m)
	at := guessAll(kinds(m))
	if cluster != nil {
		var err error
		if at, err = discover(ctx, cluster, kinds(m)); err != nil {
			return err
		}
	}
	r.refuse(stepOverlap, overlap(m))
	for i := range m.Controllers {
		c := &m.Controllers[i]
		r.Rights = append(r.Rights, rights(c, at))
		r.controllers = append(r.controllers, describe(m.Name, c, config.Limits))
		r.start(c, at)
	}
	return nil
}

// start tells what a start on the cluster would run into.
func (r *Report) start(c *abi.Controller, at resources) {
	for _, kind := range slices.Concat([]abi.Kind{c.For}, c.Owns, c.Reads) {
		switch found := at[kind]; {
		case found.absent && !slices.Contains(r.Load.WaitsFor, kind.String()):
			r.Load.WaitsFor = append(r.Load.WaitsFor, kind.String())
		case found.unfollowable != "":
			r.refuse(stepStart, &cache.NotWatchableError{Kind: kind, Missing: found.unfollowable})
		}
	}
}

// kinds lists every kind that a manifest names.
func kinds(m *abi.Manifest) (all []abi.Kind) {
	for _, c := range m.Controllers {
		all = append(all, c.For)
		all = slices.Concat(all, c.Owns, c.Reads, c.Writes)
	}
	slices.SortFunc(all, func(a, b abi.Kind) int {
		return cmp.Or(cmp.Compare(a.APIVersion, b.APIVersion), cmp.Compare(a.Kind, b.Kind))
	})
	return slices.Compact(all)
}

// overlap finds two controllers of one plugin that write the same condition of
// the same kind, as host/catalog does over all plugins.
func overlap(m *abi.Manifest) error {
	writers := map[string]string{}
	for _, c := range m.Controllers {
		if !object.HasConditions(&c) {
			continue
		}
		target := c.Conditions.TargetOrReady()
		written := c.For.Group() + "/" + c.For.Kind + "/" + target
		if other, taken := writers[written]; taken {
			return fmt.Errorf("controller %q and %q both write the condition %s of %s; give one of them another conditions.target",
				m.Name+"/"+c.Name, m.Name+"/"+other, target, c.For)
		}
		writers[written] = c.Name
	}
	return nil
}
