package devloop

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/cmd/thole-tools/internal/crdgen"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/inspect"
	"github.com/thole-dev/thole/host/sandbox"
	"github.com/thole-dev/thole/host/sanitize"
	"github.com/thole-dev/thole/internal/toolchain"
	"github.com/thole-dev/thole/internal/toolchain/traps"
	"github.com/thole-dev/thole/sdk/generate"
)

// Files that may be beside the source of a plugin. They are not part of its build.
const (
	policyFile = "policy.yaml"
	crdFile    = "crd.yaml"
	sampleFile = "sample.yaml"
)

var manifestFiles = []string{policyFile, crdFile, sampleFile}

// builder builds a plugin whenever its source changes.
type builder struct {
	dir     string // of the main package, absolute
	cwd     string // of the user; positions in messages are relative to it
	scratch string // directory of a build; its parent exists
	compiler
	inspector

	watcher   *watcher
	changed   chan struct{} // capacity 1: something may have changed
	sources   sources
	built     fileStates // of the sources, when the latest build began
	manifests fileStates // when they were last reported
}

// compiler builds the main package in dir into a file.
type compiler interface {
	compile(ctx context.Context, dir, out string) error
	// tags is the flag with which a go command sees the files as the compiler does.
	tags() string
}

// pluginCompiler compiles what it is known to compile rightly.
type pluginCompiler struct{ toolchain.Compiler }

func (c pluginCompiler) compile(ctx context.Context, dir, out string) error {
	if err := traps.Check(ctx, c.Compiler, dir); err != nil {
		return err
	}
	return c.Build(ctx, dir, out)
}

// String returns the name of the language.
func (c pluginCompiler) String() string {
	if c.IsTinyGo() {
		return "TinyGo"
	}
	return "Go"
}

func (c pluginCompiler) tags() string { return tagsOf(!c.IsTinyGo()) }

// tagsOf returns the tags of standard Go, or of TinyGo.
func tagsOf(standard bool) string {
	if standard {
		return "-tags="
	}
	return toolchain.TinyGoTags
}

// inspector adds to a build what its module states.
type inspector interface {
	inspect(ctx context.Context, b *build) error
}

// build is one attempt to build a module.
type build struct {
	changed []string // paths of changed sources; none for the first build

	saved    time.Time // when the last of the changed files was written
	noticed  time.Time // when that was noticed
	compiled time.Time // before the module was inspected
	done     time.Time

	file   string // of the module
	size   int64  // bytes
	name   string // of the plugin
	digest string // in hex
	// refused is why a host would not load the module, "" if it would.
	refused string
	// manifest is that of the module, nil if it could not be read.
	manifest *abi.Manifest
	err      error // why there is no module; its text is for people, and may have several lines
}

// buildEvent is what a builder reports: one of the three.
type buildEvent struct {
	started   *build   // because of a change
	ended     *build   // with a module or an error
	manifests []string // base names of manifestFiles that have changed
}

func newBuilder(dir, cwd, scratch string, c compiler, i inspector) *builder {
	b := &builder{dir: dir, cwd: cwd, scratch: scratch, compiler: c, inspector: i, watcher: newWatcher(), changed: make(chan struct{}, 1)}
	b.manifests = b.manifestStates()
	return b
}

// run builds at once and then after every change, and reports to out, until ctx is
// done. A build whose sources change meanwhile is cancelled.
func (b *builder) run(ctx context.Context, out chan<- buildEvent) {
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		b.watcher.run(ctx, func() {
			select {
			case b.changed <- struct{}{}:
			default: // one is pending
			}
		})
	}()
	defer func() { <-watching }()
	now := time.Now()
	for next := (&build{saved: now, noticed: now}); next != nil; {
		next = b.work(ctx, next, out)
	}
}

// work makes a build, and returns the next one as soon as the sources change; nil
// when ctx is done.
func (b *builder) work(ctx context.Context, current *build, out chan<- buildEvent) (next *build) {
	if len(current.changed) > 0 && !send(ctx, out, buildEvent{started: current}) {
		return nil
	}
	b.updateSources(ctx)
	attempt, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.make(attempt, current)
	}()
	next = b.awaitChange(ctx, done, out)
	cancel()
	<-done
	if next != nil || ctx.Err() != nil {
		return next
	}
	// The schema comes before the plugin that needs it: the build may have changed it.
	if !b.reportManifests(ctx, out) || !send(ctx, out, buildEvent{ended: current}) {
		return nil
	}
	return b.awaitChange(ctx, nil, out)
}

func send(ctx context.Context, out chan<- buildEvent, e buildEvent) bool {
	select {
	case out <- e:
		return true
	case <-ctx.Done():
		return false
	}
}

// updateSources finds the sources and reads their states, before the compiler
// reads the files. If they cannot be listed they stay as they were: the build shows
// why.
func (b *builder) updateSources(ctx context.Context) {
	if s, err := findSources(ctx, b.dir, b.tags()); err == nil || b.sources.folders == nil {
		b.sources = s
	}
	dirs := map[string]bool{b.dir: true}
	for dir := range b.sources.folders {
		dirs[dir] = true
	}
	for _, file := range b.sources.files {
		dirs[filepath.Dir(file)] = true
	}
	b.watcher.follow(dirs)
	b.built = b.sources.states()
}

// awaitChange blocks until the sources have changed and returns the build that is
// needed then. It returns nil if stop is closed first, or ctx is done.
func (b *builder) awaitChange(ctx context.Context, stop <-chan struct{}, out chan<- buildEvent) *build {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-stop:
			return nil
		case <-b.changed:
		}
		if !sleep(ctx, quietTime) || !b.reportManifests(ctx, out) {
			return nil
		}
		if changed, last := b.sources.states().since(b.built); len(changed) > 0 {
			return newBuild(changed, last, time.Now())
		}
	}
}

// sleep returns false if ctx is done before the duration is over.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// maxSaveAge is how old the modification time of a file may be to be taken for the
// time of the save: a file that was moved or unpacked keeps an older one.
const maxSaveAge = 5 * time.Second

func newBuild(changed []string, last, now time.Time) *build {
	if last.After(now) || now.Sub(last) > maxSaveAge {
		last = now
	}
	return &build{changed: changed, saved: last, noticed: now}
}

// reportManifests reports files beside the source that have changed.
func (b *builder) reportManifests(ctx context.Context, out chan<- buildEvent) bool {
	now := b.manifestStates()
	changed, _ := now.since(b.manifests)
	b.manifests = now
	if len(changed) == 0 {
		return true
	}
	for i := range changed {
		changed[i] = filepath.Base(changed[i])
	}
	return send(ctx, out, buildEvent{manifests: changed})
}

func (b *builder) manifestStates() fileStates {
	out := fileStates{}
	for _, name := range manifestFiles {
		out.add(filepath.Join(b.dir, name))
	}
	return out
}

// make generates, compiles and inspects.
func (b *builder) make(ctx context.Context, current *build) {
	// A build that was cancelled may have left files.
	if current.err = errors.Join(os.RemoveAll(b.scratch), os.Mkdir(b.scratch, 0o700)); current.err == nil {
		current.file = filepath.Join(b.scratch, "new.wasm")
		current.err = b.produce(ctx, current)
	}
	current.done = time.Now()
}

func (b *builder) produce(ctx context.Context, current *build) error {
	generateError := b.generate(ctx)
	err := b.compile(ctx, b.dir, current.file)
	switch {
	case err != nil && (generateError == nil || !onlyIn(err.Error(), generate.FileName)):
		// The compiler reports all mistakes, and generate only the first.
		return errors.New(relocate(err.Error(), b.dir, b.cwd))
	case generateError != nil:
		return errors.New(relocate(generateError.Error(), b.dir, b.cwd))
	}
	if err := b.generateCRD(ctx); err != nil {
		return errors.New(relocate(err.Error(), b.dir, b.cwd))
	}
	current.compiled = time.Now()
	info, err := os.Stat(current.file)
	if err != nil {
		return err
	}
	current.size = info.Size()
	return b.inspect(ctx, current)
}

// generate updates the generated files if the plugin has one, be it of a package that it
// imports.
func (b *builder) generate(ctx context.Context) error {
	if !slices.ContainsFunc(b.sources.generated, exists) {
		return nil
	}
	result, err := generate.Packages(ctx, generate.Place{Dir: b.dir, Temp: b.scratch}, ".")
	if err != nil || !slices.ContainsFunc(result.Files, func(f generate.File) bool { return exists(f.Path) }) {
		return err
	}
	return generate.Update(result.Files, false, func(string) {})
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// generateCRD updates crd.yaml if `thole generate crd` has written it.
func (b *builder) generateCRD(ctx context.Context) error {
	path := filepath.Join(b.dir, crdFile)
	switch have, err := os.ReadFile(path); {
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return err
	case !bytes.HasPrefix(have, []byte(crdgen.Header)):
		return nil // there is none, or it is the author's own
	}
	content, err := crdgen.Generate(ctx, generate.Place{Dir: b.dir, Temp: b.scratch})
	switch {
	case errors.Is(err, crdgen.ErrNothing): // its types are in another module
		return nil
	case err != nil:
		return err
	}
	return generate.Update([]generate.File{{Path: path, Content: content}}, false, func(string) {})
}

// moduleInspector finds out the name of a plugin from its module. The file must
// have that name: a host refuses any other.
type moduleInspector struct {
	wanted       string        // by the user; "": the name that the module states
	known        string        // of the last module that can be loaded; at first a guess
	host         config.Config // with its defaults: its CacheDir is used
	compiler     []string
	capabilities []sandbox.Capability
}

// inspect loads the module as the host will; what is compiled for that is in the
// host's cache afterwards. A module that would be refused is no error.
func (i *moduleInspector) inspect(ctx context.Context, b *build) error {
	name := i.known
	if i.wanted != "" {
		name = i.wanted
	}
	stated, err := i.inspectAs(ctx, name, b)
	if err == nil && i.wanted == "" && stated != name {
		_, err = i.inspectAs(ctx, stated, b)
	}
	if err == nil && b.refused == "" {
		i.known = b.name
	}
	return err
}

// inspectAs inspects the module as a plugin of that name, and returns the name that
// the module states.
func (i *moduleInspector) inspectAs(ctx context.Context, name string, b *build) (stated string, err error) {
	file := filepath.Join(filepath.Dir(b.file), name+".wasm")
	if err := os.Rename(b.file, file); err != nil {
		return "", err
	}
	b.file, b.name, b.refused = file, name, ""
	report, err := inspect.File(ctx, file, inspect.Options{Host: i.host, Compiler: i.compiler, Capabilities: i.capabilities})
	if err != nil {
		return "", err
	}
	b.digest = report.Digest
	if err := report.Refused(); err != nil {
		b.refused = report.Load.Step + ": " + sanitize.Line(err.Error())
	}
	if b.manifest = report.DecodedManifest(); b.manifest == nil {
		return name, nil
	}
	return b.manifest.Name, nil
}
