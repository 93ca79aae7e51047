package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/thole-dev/thole/host/internal/tholetest"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// A part of the plugins follows the kind that benchmarkPlugins changes objects of.
const (
	followedKind = "Many999"
	followers    = 10 // one of so many follows it
	manyEvents   = 50 // for each plugin
)

// benchmarkPlugins measures the host with SCALE_PLUGINS (200) plugins of TinyGo, each
// with a kind of its own. One of ten also owns objects of one kind more. Objects of that
// kind that belong to nobody are changed, which concerns no plugin.
//
//	first-load-s  from the start of the process until the last plugin has started, with
//	        an empty compile cache
//	load-s  the same with the compile cache of the first
//	started-MiB-RSS, idle-MiB-RSS, peak-MiB  memory of the host when it has started,
//	        when it has had nothing to do for SCALE_IDLE seconds (180), and at most
//	cpu-ms/1000-events  processor time of the host for events that concern nobody
//	us/event/plugin  how much of that each further plugin costs that follows the kind,
//	        computed from a second host with one such plugin
func benchmarkPlugins(b *testing.B) {
	once(b, func(b *testing.B) {
		restoreAfter(b)
		m := newManyPlugins(b, number(b, "SCALE_PLUGINS", 200))
		must(b, cluster.Restart()) // or the API server ends the watches of the new kinds at some time
		following := max(m.many/followers, 2)

		m.install(following)
		host, took := m.start()
		b.ReportMetric(took.Seconds(), "first-load-s")
		host.stop()
		host, took = m.start()
		b.ReportMetric(took.Seconds(), "load-s")
		b.ReportMetric(host.usageAfterGC().rss, "started-MiB-RSS")
		<-time.After(time.Duration(number(b, "SCALE_IDLE", 180)) * time.Second)
		b.ReportMetric(host.usageAfterGC().rss, "idle-MiB-RSS")
		several := m.cpuOfEvents(host)
		b.ReportMetric(host.memoryMiB("VmHWM"), "peak-MiB")
		host.stop()
		host.expectNoErrors()

		m.install(1)
		host, _ = m.start()
		one := m.cpuOfEvents(host)
		host.stop()
		events := float64(manyEvents * m.many)
		b.ReportMetric(several/events*1e6, "cpu-ms/1000-events")
		b.ReportMetric((several-one)/events/float64(following-1)*1e6, "us/event/plugin")
	})
}

type manyPlugins struct {
	b        *testing.B
	many     int
	ns       string
	plugins  directory
	cacheDir string
	followed schema.GroupVersionResource
}

func newManyPlugins(b *testing.B, many int) *manyPlugins {
	b.Helper()
	m := &manyPlugins{b: b, many: many, ns: namespace(b), plugins: newDirectory(b), cacheDir: b.TempDir()}
	m.followed = installKind(b, followedKind)
	must(b, inParallel(many, func(i int) error { installKind(b, manyKind(i)); return nil }))
	must(b, inParallel(100, func(i int) error {
		return tryCreate(b.Context(), m.followed, followedKind, m.ns, fmt.Sprintf("object-%d", i), map[string]any{"text": "0"})
	}))
	return m
}

func manyName(i int) string { return fmt.Sprintf("many-%03d", i) }
func manyKind(i int) string { return fmt.Sprintf("Many%03d", i) }

// install writes the plugins, of which the first ones follow the kind. The others follow
// only their own.
func (m *manyPlugins) install(following int) {
	m.b.Helper()
	wasm := string(wasmbuild.Build(m.b, wasmbuild.TinyGo, testdata+"many"))
	for i := range m.many {
		follows := followedKind
		if i >= following {
			follows = manyKind(i)
		}
		texts := strings.NewReplacer(manyName(0), manyName(i), manyKind(0), manyKind(i), followedKind, follows)
		m.plugins.install(manyName(i), []byte(texts.Replace(wasm)))
	}
}

// start starts a host and returns how long it took until the last plugin had started.
func (m *manyPlugins) start() (*process, time.Duration) {
	m.b.Helper()
	begin := time.Now()
	host := start(m.b, m.plugins, m.ns, "", quietlyIn(m.cacheDir))
	var started tholetest.Lines // metrics of so many plugins would cost the host a tenth of the time
	poll(m.b, "every plugin has started", func() bool {
		started = host.Log.Events("PluginStarted")
		return len(started) == m.many
	})
	last, err := time.Parse(time.RFC3339Nano, started[len(started)-1].String("@timestamp"))
	must(m.b, err)
	host.awaitIdle(m.b, 0)
	return host, last.Sub(begin)
}

// cpuOfEvents changes objects that belong to nobody, and returns the processor time of
// the host for that.
func (m *manyPlugins) cpuOfEvents(host *process) float64 {
	m.b.Helper()
	host.awaitIdle(m.b, 0)
	cpu := host.cpu()
	must(m.b, inParallel(manyEvents*m.many, func(i int) error {
		return patchSpec(m.b.Context(), m.followed, m.ns, fmt.Sprintf("object-%d", i%100), "text", fmt.Sprint(i, time.Now().UnixNano()))
	}))
	return host.cpu() - cpu
}
