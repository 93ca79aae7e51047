package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/thole-dev/thole/host/internal/tholetest"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// benchmarkEchoes measures the host with SCALE_OBJECTS (100,000) Echoes of 2.3 KB, of
// which half is random, and a ConfigMap of each.
//
//	object-bytes  JSON of an Echo with its status, without managed fields
//	fill-s      until a first host has served all of them; the API server limits this
//	synced-s    from the start of a second host until it is ready: every informer synced
//	settled-s   from there on until every Echo has been reconciled
//	start-cpu-s processor time of the host until then
//	cache-MiB   JSON in its cache
//	synced-MiB-RSS, settled-MiB-RSS  memory of the host at these times
//	later-MiB-RSS  memory SCALE_LATER seconds (120) after the sync
//	peak-MiB    the most memory until then
//	edit-p50-ms, -p99-ms, -max-ms  from the change of a spec until a watch shows the
//	            status, of Echoes that nobody has changed before, ten a second
//	restart-writes, restart-gets, restart-lists  requests of a third host until it has
//	            reconciled every Echo, counted by a proxy; the first two should be 0
//
// On two processors, to fill the cluster with 100,000 Echoes takes a quarter of an hour,
// and all of it twenty minutes.
func benchmarkEchoes(b *testing.B) {
	once(b, func(b *testing.B) {
		installCRD(b, testdata+"echo/crd.yaml")
		restoreAfter(b)
		m := newManyEchoes(b)
		m.fill()
		m.measureStart()
		m.measureRestart()
	})
}

type manyEchoes struct {
	*echoFleet
	b        *testing.B
	plugins  directory
	cacheDir string
}

func newManyEchoes(b *testing.B) *manyEchoes {
	b.Helper()
	m := &manyEchoes{newEchoFleet(b, number(b, "SCALE_OBJECTS", 100_000), 2300), b, newDirectory(b), b.TempDir()}
	m.plugins.install("echo", wasmbuild.Build(b, wasmbuild.TinyGo, testdata+"echo"))
	return m
}

func (m *manyEchoes) start(options ...func(*tholetest.Host)) *process {
	m.b.Helper()
	return start(m.b, m.plugins, m.ns, "", append(options, quietlyIn(m.cacheDir))...)
}

// fill creates the Echoes and lets a host write their ConfigMaps and statuses.
func (m *manyEchoes) fill() {
	m.b.Helper()
	host, begin := m.start(), time.Now()
	m.next()
	must(m.b, inParallel(m.many, func(i int) error { return m.write(i, time.Now()) }))
	host.awaitIdle(m.b, m.many)
	m.b.ReportMetric(time.Since(begin).Seconds(), "fill-s")
	m.b.ReportMetric(float64(m.size()), "object-bytes")
	host.stop()
}

func (m *manyEchoes) measureStart() {
	m.b.Helper()
	begin := time.Now()
	host := m.start()
	poll(m.b, "the host is ready", func() bool { return host.Running("echo", 1) })
	synced := time.Now()
	m.b.ReportMetric(synced.Sub(begin).Seconds(), "synced-s")
	m.b.ReportMetric(host.memoryMiB("VmRSS"), "synced-MiB-RSS")
	m.b.ReportMetric(host.awaitIdle(m.b, m.many).Sub(synced).Seconds(), "settled-s")
	m.b.ReportMetric(host.cpu(), "start-cpu-s")
	m.b.ReportMetric(host.memoryMiB("VmRSS"), "settled-MiB-RSS")
	m.b.ReportMetric(host.Metrics().Sum("thole_cache_bytes")/(1<<20), "cache-MiB")
	<-time.After(time.Until(synced.Add(time.Duration(number(m.b, "SCALE_LATER", 120)) * time.Second)))
	m.b.ReportMetric(host.memoryMiB("VmRSS"), "later-MiB-RSS")
	m.b.ReportMetric(host.memoryMiB("VmHWM"), "peak-MiB")
	m.measureEdits()
	host.stop()
	host.expectNoErrors()
}

// measureEdits changes some of the Echoes.
func (m *manyEchoes) measureEdits() {
	m.b.Helper()
	m.watch()
	m.edit(m.b, 200, 100*time.Millisecond).report(m.b, "edit")
}

func (m *manyEchoes) measureRestart() {
	m.b.Helper()
	proxy := tholetest.NewProxy(m.b, cluster.Config)
	host := m.start(withKubeconfig(proxy.Kubeconfig))
	host.awaitIdle(m.b, m.many)
	host.stop()
	counts := proxy.Succeeded()
	m.b.ReportMetric(float64(counts.Writes()), "restart-writes")
	m.b.ReportMetric(float64(counts["get"]), "restart-gets")
	m.b.ReportMetric(float64(counts["list"]), "restart-lists")
	m.b.Logf("requests after the restart: %v", fmt.Sprint(counts))
}
