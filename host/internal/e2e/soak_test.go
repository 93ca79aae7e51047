package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/thole-dev/thole/host/internal/await"
)

const (
	soakPlugins = 4
	// soakLimits let a busy API server be the bound. In a policy the plugins
	// may be given less.
	soakLimits = "limits: {writesPerSecond: 150, writeBurst: 150}"
)

// soakSize is how much is done.
type soakSize struct {
	objects    int           // of all plugins
	operations int           // on the directory, at least
	least      time.Duration // that they take, at least
	round      int           // operations between two looks at everything
	pause      time.Duration // in the middle of an operation, at most
	change     time.Duration // between two changes of objects
}

// soakOf is what the environment asks for: SOAK is a duration, without it a
// short form is run.
func soakOf(tb testing.TB) soakSize {
	tb.Helper()
	asked := os.Getenv("SOAK")
	if asked == "" {
		return soakSize{objects: 160, operations: 40, least: 8 * time.Second, round: 20, pause: 200 * time.Millisecond, change: 20 * time.Millisecond}
	}
	least, err := time.ParseDuration(asked)
	if err != nil || least < 0 {
		tb.Fatalf("SOAK=%s is no duration: write it as 3m, 90s or 8h30m", asked)
	}
	return soakSize{objects: 2000, operations: 500, least: least, round: 50, pause: 400 * time.Millisecond, change: 30 * time.Millisecond}
}

// soakSeed is SOAK_SEED, or one that is told.
func soakSeed(tb testing.TB) uint64 {
	tb.Helper()
	seed := uint64(time.Now().UnixNano())
	if given := os.Getenv("SOAK_SEED"); given != "" {
		var err error
		if seed, err = strconv.ParseUint(given, 10, 64); err != nil {
			tb.Fatalf("SOAK_SEED: %v", err)
		}
	}
	tb.Logf("SOAK_SEED=%d", seed)
	return seed
}

// soak is a host whose plugins change while their objects do.
type soak struct {
	soakSize
	t       *testing.T
	ns      string
	random  *rand.Rand // of the objects
	kinds   []schema.GroupVersionResource
	dir     *soakDirectory
	host    *process
	witness *soakWitness
	cache   string   // the host's directory for compiled plugins and more
	names   []string // of all objects; those of plugin i are at i, i+soakPlugins, ...
	made    int
}

// TestSoakPluginsChangeWhileEverythingRuns does to three of four plugins what
// can happen to files, while objects come, change and go. Each object ends as
// the last valid generation wants, no run mixes two of them, the fourth plugin
// notices nothing, and nothing is left over.
func TestSoakPluginsChangeWhileEverythingRuns(t *testing.T) {
	s := newSoak(t)
	s.create()
	s.flip()
	s.checkpoint("at first")
	before := s.host.rest()
	t.Logf("before: %v", before)

	s.witness.measure(true)
	settled := s.operate()
	s.witness.measure(false)
	for _, p := range s.dir.plugins[1:] {
		s.dir.restore(p)
	}
	s.checkpoint("at the end")
	s.expectUntouched()
	s.host.expectNothingLeft(before)
	t.Logf("memory after the first third of the operations: %v", settled)
	settled.rss = max(settled.rss, before.rss) // not all plugins may have run then
	s.host.expectFlat(settled)
	t.Logf("latency of the plugin that is never touched: %s", s.witness.quantiles())
	t.Logf("%d operations, %d versions of objects seen", len(s.dir.done), s.witness.events)
	s.host.stop()
	s.expectOnlyRefusals()
}

func newSoak(t *testing.T) *soak {
	t.Helper()
	s := &soak{soakSize: soakOf(t), t: t, ns: namespace(t)}
	seed := soakSeed(t)
	s.random = rand.New(rand.NewPCG(seed, 1))
	for i := range soakPlugins {
		s.kinds = append(s.kinds, installSoakKind(t, i))
	}
	s.dir = newSoakDirectory(t, rand.New(rand.NewPCG(seed, 0)), soakPlugins, s.pause)
	s.witness = newSoakWitness(t, s.ns, s.kinds)
	s.cache = t.TempDir()
	how := host(s.dir.path, cluster.Kubeconfig, s.ns, soakLimits)
	how.CacheDir, how.Args = s.cache, append(how.Args, "--log-level", "info")
	s.host = &process{how.Start(t), t}
	for i := range soakPlugins {
		s.host.ready(soakName(i), 1)
	}
	return s
}

// installSoakKind installs the CRD of a plugin.
func installSoakKind(tb testing.TB, plugin int) schema.GroupVersionResource {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "soak", "crd.yaml"))
	if err != nil {
		tb.Fatal(err)
	}
	kind := installedSoakKind(plugin)
	names := strings.NewReplacer("Soak0", soakKind(plugin), "soak0s", kind.Resource, "soak0", strings.ToLower(soakKind(plugin)))
	installCRDText(tb, names.Replace(string(text)))
	return kind
}

func installedSoakKind(plugin int) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "e2e.thole.dev", Version: "v1", Resource: fmt.Sprintf("soak%ds", plugin)}
}

// create makes the objects, eight at a time.
func (s *soak) create() {
	s.t.Helper()
	var group errgroup.Group
	group.SetLimit(8)
	for len(s.names) < s.objects {
		plugin := len(s.names) % soakPlugins
		s.names = append(s.names, s.newName(plugin))
		name := s.names[len(s.names)-1]
		group.Go(func() error { return s.make(plugin, name) })
	}
	done(s.t, group.Wait())
}

func (s *soak) newName(plugin int) string {
	s.made++
	return fmt.Sprintf("%s-%d", soakName(plugin), s.made)
}

func (s *soak) make(plugin int, name string) error {
	s.witness.expect(plugin, name, "at first")
	return create(s.t.Context(), s.kinds[plugin], soakKind(plugin), s.ns, name, map[string]any{"text": "at first"})
}

// flip does once to the plugins what leaves something that is kept for ten
// minutes: informers of kinds that are not used any more, and the generation
// before the one that runs.
func (s *soak) flip() {
	for _, p := range s.dir.plugins[1:] {
		s.dir.replace(p, s.dir.modules.wide)
		await.Until(s.t, "the wide variant runs", func() bool { return s.host.runsVersion(p) })
		s.dir.restore(p)
		await.Until(s.t, "the plain variant runs", func() bool { return s.host.runsVersion(p) })
	}
}

// operate operates on the directory while objects change, and answers the
// host's memory after a third of it, or a minute.
func (s *soak) operate() (settled soakRest) {
	start, operated := time.Now(), time.Duration(0)
	pace := s.least / time.Duration(s.operations)
	for n := 0; n < s.operations || operated < s.least; {
		stop, begin := s.keepChanging(), time.Now()
		for range s.round {
			next := time.After(pace)
			s.dir.operate()
			<-next
		}
		stop()
		operated += time.Since(begin)
		n += s.round
		s.checkpoint(fmt.Sprintf("after %d operations", n))
		s.emptyCache()
		if settled.rss == 0 && (n > s.operations/3 || time.Since(start) > time.Minute) {
			settled = s.host.rest()
		}
	}
	return settled
}

// emptyCache removes the compiled plugins: a disk is full after some hours, and
// nobody loses code that runs.
func (s *soak) emptyCache() {
	entries, err := filepath.Glob(filepath.Join(s.cache, "thole", "thole-code-*", "*"))
	done(s.t, err)
	for _, entry := range entries {
		done(s.t, os.Remove(entry))
	}
	s.dir.say("%d compiled plugins removed", len(entries))
}

// keepChanging changes one object after the other until the returned function
// is called.
func (s *soak) keepChanging() (stop func()) {
	ctx, cancel := context.WithCancel(s.t.Context())
	var changes sync.WaitGroup
	changes.Go(func() {
		tick := time.NewTicker(s.change)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if err := s.changeOne(n); err != nil {
				s.t.Errorf("change an object: %v", err)
				return
			}
		}
	})
	return func() {
		cancel()
		changes.Wait()
	}
}

// changeOne edits an object, as most changes do, deletes its child, or puts
// another object in its place.
func (s *soak) changeOne(n int) error {
	at := s.random.IntN(len(s.names))
	plugin, name := at%soakPlugins, s.names[at]
	ctx, client := s.t.Context(), objects.Resource(s.kinds[plugin]).Namespace(s.ns)
	switch s.random.IntN(20) {
	case 0:
		s.witness.expect(plugin, name, "")
		s.names[at] = s.newName(plugin)
		return errors.Join(client.Delete(ctx, name, metav1.DeleteOptions{}), s.make(plugin, s.names[at]))
	case 1:
		err := objects.Resource(configMaps).Namespace(s.ns).Delete(ctx, name, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	text := fmt.Sprintf("change %d of %d", n, time.Now().UnixNano())
	s.witness.expect(plugin, name, text)
	return patchSpec(ctx, s.kinds[plugin], s.ns, name, "text", text)
}
