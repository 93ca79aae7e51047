package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
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
	// soakLimits are above what a busy API server can do. Policies may set lower
	// limits.
	soakLimits = "limits: {writesPerSecond: 150, writeBurst: 150}"
)

// soakSize is how much a soak test does.
type soakSize struct {
	objects    int           // of all plugins together
	operations int           // on the directory, at least
	duration   time.Duration // of the operations, at least
	round      int           // operations between two checkpoints
	pause      time.Duration // bound of the pauses in the middle of an operation
	change     time.Duration // between two changes of objects
}

// soakSizeOf returns the size for the environment: SOAK is a duration, without it
// the test is short.
func soakSizeOf(tb testing.TB) soakSize {
	tb.Helper()
	text := os.Getenv("SOAK")
	if text == "" {
		return soakSize{
			objects: 160, operations: 40, duration: 8 * time.Second, round: 20,
			pause: 200 * time.Millisecond, change: 20 * time.Millisecond,
		}
	}
	duration, err := time.ParseDuration(text)
	if err != nil || duration < 0 {
		tb.Fatalf("SOAK: %q is not a duration: write it as 3m, 90s or 8h30m", text)
	}
	return soakSize{
		objects: 2000, operations: 500, duration: duration, round: 50,
		pause: 400 * time.Millisecond, change: 30 * time.Millisecond,
	}
}

// soakSeed returns SOAK_SEED, or a new seed, and logs it.
func soakSeed(tb testing.TB) uint64 {
	tb.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("SOAK_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			tb.Fatalf("SOAK_SEED: %v", err)
		}
	}
	tb.Logf("SOAK_SEED=%d", seed)
	return seed
}

// soak is a host whose plugins change while their objects do.
type soak struct {
	soakSize
	t        *testing.T
	ns       string
	random   *rand.Rand // for the objects
	kinds    []schema.GroupVersionResource
	dir      *soakDirectory
	host     *process
	recorder *soakRecorder
	cache    string   // XDG_CACHE_HOME of the host
	names    []string // of all objects; those of plugin i are at i, i+soakPlugins, ...
	created  int
}

// Random operations change the files of three of four plugins, while objects are
// created, changed and deleted. Each object ends as the last valid version of its
// plugin wants it, no run mixes two versions, the fourth plugin is not disturbed,
// and nothing leaks.
func TestSoakObjectsConvergeWhilePluginsChange(t *testing.T) {
	s := newSoak(t)
	s.createAll()
	s.warmUp()
	s.checkpoint("at first")
	before := s.host.usageAfterGC()
	t.Logf("before: %v", before)

	s.recorder.measure(true)
	settled := s.operate()
	s.recorder.measure(false)
	for _, p := range s.dir.plugins[1:] {
		s.dir.restore(p)
	}
	s.checkpoint("at the end")
	s.expectFirstUndisturbed()
	s.host.expectNoLeak(before)
	t.Logf("after the first third of the operations: %v", settled)
	s.host.expectMemory(max(settled.rss, before.rss)*(1+extraRSS) + extraMiB) // settled may be without some plugins
	t.Logf("latency of the plugin that never changed: %s", s.recorder.quantiles())
	t.Logf("%d operations, %d versions of objects recorded", len(s.dir.operations), s.recorder.events)
	s.host.stop()
	s.expectOnlyFileErrors()
}

func newSoak(t *testing.T) *soak {
	t.Helper()
	s := &soak{soakSize: soakSizeOf(t), t: t, ns: namespace(t)}
	seed := soakSeed(t)
	s.random = rand.New(rand.NewPCG(seed, 1))
	for i := range soakPlugins {
		s.kinds = append(s.kinds, installSoakCRD(t, i))
	}
	s.dir = newSoakDirectory(t, rand.New(rand.NewPCG(seed, 0)), soakPlugins, s.pause)
	s.recorder = newSoakRecorder(t, s.ns, s.kinds)
	s.cache = t.TempDir()
	s.host = start(t, s.dir.directory, s.ns, soakLimits, quietlyIn(s.cache))
	for i := range soakPlugins {
		s.host.awaitRunning(soakName(i), 1)
	}
	return s
}

// createAll creates the objects, eight at a time.
func (s *soak) createAll() {
	s.t.Helper()
	var group errgroup.Group
	group.SetLimit(8)
	for len(s.names) < s.objects {
		plugin := len(s.names) % soakPlugins
		name := s.newName(plugin)
		s.names = append(s.names, name)
		group.Go(func() error { return s.createObject(plugin, name) })
	}
	must(s.t, group.Wait())
}

func (s *soak) newName(plugin int) string {
	s.created++
	return fmt.Sprintf("%s-%d", soakName(plugin), s.created)
}

func (s *soak) createObject(plugin int, name string) error {
	s.recorder.expect(plugin, name, "at first")
	return tryCreate(s.t.Context(), s.kinds[plugin], soakKind(plugin), s.ns, name, map[string]any{"text": "at first"})
}

// warmUp makes the host use what it keeps for ten minutes after that: informers of
// kinds that are no longer used, and the previous revision.
func (s *soak) warmUp() {
	for _, p := range s.dir.plugins[1:] {
		s.dir.replace(p, s.dir.modules.wide)
		s.awaitVersion(p)
		s.dir.restore(p)
		s.awaitVersion(p)
	}
}

func (s *soak) awaitVersion(p *soakPlugin) {
	s.t.Helper()
	await.Until(s.t, p.name()+" runs at "+p.version, func() bool { return s.host.runsVersion(p.name(), p.version) })
}

// operate performs operations on the directory while objects change. It returns the
// usage of the host after a third of the operations, or after a minute.
func (s *soak) operate() (settled usage) {
	begin, operated := time.Now(), time.Duration(0)
	pace := s.duration / time.Duration(s.operations)
	for n := 0; n < s.operations || operated < s.duration; {
		stop, roundBegin := repeat(s.t, s.change, s.changeObject), time.Now()
		for range s.round {
			next := time.After(pace)
			s.dir.operate()
			<-next
		}
		stop()
		operated += time.Since(roundBegin)
		n += s.round
		s.checkpoint(fmt.Sprintf("after %d operations", n))
		s.emptyCache()
		if settled.rss == 0 && (n > s.operations/3 || time.Since(begin) > time.Minute) {
			settled = s.host.usageAfterGC()
		}
	}
	return settled
}

// emptyCache removes the compiled plugins, which would fill the disk in some hours.
// Running plugins must not need them.
func (s *soak) emptyCache() {
	entries, err := filepath.Glob(filepath.Join(s.cache, "thole", "thole-code-*", "*"))
	must(s.t, err)
	for _, entry := range entries {
		must(s.t, os.Remove(entry))
	}
	s.dir.logf("%d compiled plugins removed", len(entries))
}

// changeObject mostly changes an object, and sometimes deletes its child or replaces
// it by another object.
func (s *soak) changeObject(n int) error {
	at := s.random.IntN(len(s.names))
	plugin, name := at%soakPlugins, s.names[at]
	ctx, client := s.t.Context(), objects.Resource(s.kinds[plugin]).Namespace(s.ns)
	switch s.random.IntN(20) {
	case 0:
		s.recorder.forget(name)
		s.names[at] = s.newName(plugin)
		return errors.Join(client.Delete(ctx, name, metav1.DeleteOptions{}), s.createObject(plugin, s.names[at]))
	case 1:
		err := objects.Resource(configMaps).Namespace(s.ns).Delete(ctx, name, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	text := fmt.Sprintf("change %d of %d", n, time.Now().UnixNano())
	s.recorder.expect(plugin, name, text)
	return patchSpec(ctx, s.kinds[plugin], s.ns, name, "text", text)
}
