package devloop

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/thole-dev/thole/sdk/generate"
)

// Files that may lie beside a plugin's source. They are no part of its build.
const (
	policyFile = "policy.yaml"
	crdFile    = "crd.yaml"
	sampleFile = "sample.yaml"
)

var besideFiles = []string{policyFile, crdFile, sampleFile}

// workshop builds a plugin whenever its source changes.
type workshop struct {
	dir     string // of the main package, absolute
	cwd     string // where the user is
	scratch string // directory of a build, in an existing one
	compiler
	inspector

	watcher *watcher
	hints   chan struct{} // capacity 1: something may have changed
	sources sources
	seen    stamps // of the sources, when the build began that is the newest
	beside  stamps // of the files beside, when they were told last
}

// compiler builds the main package in dir into a file.
type compiler interface {
	compile(ctx context.Context, dir, out string) error
}

// inspector adds to a build what its module says.
type inspector interface {
	inspect(ctx context.Context, b *build) error
}

// build is one attempt to make a module of the source.
type build struct {
	changed []string // paths; none for the first build

	// When the last of the changed files was written, when that was noticed,
	// and when the build ended.
	saved, noticed, done time.Time
	compiled             time.Time // before the module was looked at

	file   string // of the module
	size   int64  // bytes
	name   string // of the plugin
	digest string // in hex
	// refused is why a host would not load the module, "" if it would.
	refused string
	err     error // why there is no module; its text is for people, in lines
}

// news is what a workshop tells: one of the three.
type news struct {
	begun  *build   // because of a change
	ended  *build   // with a module or an error
	beside []string // files beside the source that have changed, by their base names
}

func newWorkshop(dir, cwd, scratch string, c compiler, i inspector) *workshop {
	w := &workshop{dir: dir, cwd: cwd, scratch: scratch, compiler: c, inspector: i, watcher: newWatcher(), hints: make(chan struct{}, 1)}
	w.beside = w.lookBeside()
	return w
}

// run builds at once and then after every change, and tells, until ctx is
// done. A build whose sources change under way is given up for the next.
func (w *workshop) run(ctx context.Context, tell chan<- news) {
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		w.watcher.run(ctx, w.hint)
	}()
	defer func() { <-watching }()
	now := time.Now()
	for b := (&build{saved: now, noticed: now}); b != nil; {
		b = w.work(ctx, b, tell)
	}
}

func (w *workshop) hint() {
	select {
	case w.hints <- struct{}{}:
	default: // one is pending
	}
}

// work makes a build, unless another one has to be made, and returns the next
// one; nil at the end of ctx.
func (w *workshop) work(ctx context.Context, b *build, tell chan<- news) *build {
	if len(b.changed) > 0 && !send(ctx, tell, news{begun: b}) {
		return nil
	}
	w.takeStock(ctx)
	attempt, giveUp := context.WithCancel(ctx)
	defer giveUp()
	made := make(chan struct{})
	go func() {
		defer close(made)
		w.make(attempt, b)
	}()
	next := w.await(ctx, made, tell)
	giveUp()
	<-made
	if next != nil || ctx.Err() != nil {
		return next
	}
	if !send(ctx, tell, news{ended: b}) {
		return nil
	}
	return w.await(ctx, nil, tell)
}

func send(ctx context.Context, tell chan<- news, n news) bool {
	select {
	case tell <- n:
		return true
	case <-ctx.Done():
		return false
	}
}

// takeStock notes what the sources are, and what they look like before they
// are read. What cannot be listed is left as it was: the build says why.
func (w *workshop) takeStock(ctx context.Context) {
	if s, err := findSources(ctx, w.dir); err == nil || w.sources.folders == nil {
		w.sources = s
	}
	dirs := map[string]bool{w.dir: true}
	for dir := range w.sources.folders {
		dirs[dir] = true
	}
	for _, file := range w.sources.files {
		dirs[filepath.Dir(file)] = true
	}
	w.watcher.follow(dirs)
	w.seen = w.sources.look()
}

// await waits for a change of the sources and returns the build that it needs;
// nil if over is closed first, or ctx is done.
func (w *workshop) await(ctx context.Context, over <-chan struct{}, tell chan<- news) *build {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-over:
			return nil
		case <-w.hints:
		}
		if !rested(ctx, quiet) || !w.tellBeside(ctx, tell) {
			return nil
		}
		if changed, last := w.sources.look().since(w.seen); len(changed) > 0 {
			return newBuild(changed, last, time.Now())
		}
	}
}

func rested(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// longestNotice bounds how far back a file's time is believed to be that of
// the save: a file that was moved or unpacked keeps an older one.
const longestNotice = 5 * time.Second

func newBuild(changed []string, last, now time.Time) *build {
	if last.After(now) || now.Sub(last) > longestNotice {
		last = now
	}
	return &build{changed: changed, saved: last, noticed: now}
}

// tellBeside tells of files beside the source that have changed.
func (w *workshop) tellBeside(ctx context.Context, tell chan<- news) bool {
	now := w.lookBeside()
	changed, _ := now.since(w.beside)
	w.beside = now
	if len(changed) == 0 {
		return true
	}
	for i := range changed {
		changed[i] = filepath.Base(changed[i])
	}
	return send(ctx, tell, news{beside: changed})
}

func (w *workshop) lookBeside() stamps {
	out := stamps{}
	for _, name := range besideFiles {
		out.add(filepath.Join(w.dir, name))
	}
	return out
}

// make is the build: generate, compile, look at what came of it.
func (w *workshop) make(ctx context.Context, b *build) {
	if b.err = w.clear(); b.err == nil {
		b.file = filepath.Join(w.scratch, "new.wasm")
		b.err = w.produce(ctx, b)
	}
	b.done = time.Now()
}

// clear takes away what a build has left that was given up.
func (w *workshop) clear() error {
	return errors.Join(os.RemoveAll(w.scratch), os.Mkdir(w.scratch, 0o700))
}

func (w *workshop) produce(ctx context.Context, b *build) error {
	refused := w.generate(ctx)
	err := w.compile(ctx, w.dir, b.file)
	switch {
	case err != nil && (refused == nil || !only(err.Error(), generate.FileName)):
		// Generating stops at the first thing that does not compile.
		return errors.New(relocate(err.Error(), w.dir, w.cwd))
	case refused != nil:
		return errors.New(relocate(refused.Error(), w.dir, w.cwd))
	}
	b.compiled = time.Now()
	info, err := os.Stat(b.file)
	if err != nil {
		return err
	}
	b.size = info.Size()
	return w.inspect(ctx, b)
}

// generate brings the generated file up to date if the package has one.
func (w *workshop) generate(ctx context.Context) error {
	if !exists(filepath.Join(w.dir, generate.FileName)) {
		return nil
	}
	files, err := generate.Packages(ctx, generate.Place{Dir: w.dir, Temp: w.scratch}, ".")
	if err != nil {
		return err
	}
	return generate.Update(files, false, func(string) {})
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
