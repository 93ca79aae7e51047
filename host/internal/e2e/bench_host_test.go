package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/host/internal/tholetest"
)

// benchHost is a running thole.
type benchHost struct {
	*tholetest.Process
	b *testing.B
}

func (f *fleet) start() *benchHost {
	f.b.Helper()
	how := host(filepath.Join(f.dir, "plugins"), cluster.Kubeconfig, f.ns, "limits: {writesPerSecond: 5000, writeBurst: 5000, concurrency: 16}")
	how.CacheDir, how.Args = f.dir, append(how.Args, "--log-level", "info")
	return &benchHost{how.Start(f.b), f.b}
}

// stop ends the host as an administrator would; its log has no error.
func (h *benchHost) stop() {
	h.b.Helper()
	if err := h.Stop(); err != nil {
		h.b.Error(err)
	}
	for _, line := range h.Log.Errors() {
		h.b.Errorf("error in the log: %v", line)
	}
}

// awaitRest waits until the host has reconciled so many times, and for a
// second not once more. It returns when that second began.
func (h *benchHost) awaitRest(runs int) time.Time {
	h.b.Helper()
	var r lull
	poll(h.b, fmt.Sprintf("the host rests after %d runs", runs), func() bool {
		m := h.metrics()
		return r.isOne(m) && r.runs >= float64(runs) && m.sum("thole_plugin_info") > 0
	})
	return r.since
}

// lull is a time in which a host makes no run.
type lull struct {
	runs  float64 // until then
	since time.Time
}

// isOne says whether it lasts for a second by now; it is asked again and again.
func (r *lull) isOne(m metrics) bool {
	n := m.sum("controller_runtime_reconcile_total")
	if n != r.runs || r.since.IsZero() || m.sum("workqueue_depth") > 0 || m.sum("controller_runtime_active_workers") > 0 {
		r.runs, r.since = n, time.Now()
	}
	return time.Since(r.since) > time.Second
}

func (h *benchHost) metrics() metrics {
	h.b.Helper()
	_, text := h.Ask("/metrics")
	return metrics(text)
}

// cpu is what the host has used so far, in seconds.
func (h *benchHost) cpu() float64 {
	h.b.Helper()
	return h.metrics().sum("process_cpu_seconds_total")
}

// memory returns a line of the process's status, in MiB.
func (h *benchHost) memory(name string) float64 {
	h.b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", h.PID()))
	if err != nil {
		h.b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), name+":")
	var kib float64
	if _, err := fmt.Sscanf(rest, "%f kB", &kib); err != nil {
		h.b.Fatal(err)
	}
	return kib / 1024
}

// load is what the API server has done so far.
type load struct {
	cpu           float64 // seconds
	writes, reads float64 // requests for PodManagers and Pods, without watches
	events        float64 // Events written; they lag behind, for clients limit them
}

func (l load) since(before load) load {
	return load{l.cpu - before.cpu, l.writes - before.writes, l.reads - before.reads, l.events - before.events}
}

func benchServer(b *testing.B) load {
	b.Helper()
	text, err := clients.RESTClient().Get().AbsPath("/metrics").DoRaw(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	m := metrics(text)
	count := func(resource string, verbs ...string) (n float64) {
		for _, verb := range verbs {
			n += m.sum("apiserver_request_total", fmt.Sprintf("resource=%q", resource), fmt.Sprintf("verb=%q", verb))
		}
		return n
	}
	write := []string{"PATCH", "APPLY", "PUT", "POST", "DELETE", "DELETECOLLECTION"}
	return load{
		cpu:    m.sum("process_cpu_seconds_total"),
		writes: count("podmanagers", write...) + count("pods", write...),
		reads:  count("podmanagers", "GET", "LIST") + count("pods", "GET", "LIST"),
		events: count("events", write...),
	}
}

// metrics is a text as Prometheus reads it.
type metrics string

// sum adds the values of a metric's series that have all these labels.
func (m metrics) sum(name string, labels ...string) (sum float64) {
	for line := range strings.Lines(string(m)) {
		line = strings.TrimSpace(line)
		family, _, _ := strings.Cut(line[:max(0, strings.LastIndexByte(line, ' '))], "{")
		if family != name || slices.ContainsFunc(labels, func(l string) bool { return !strings.Contains(line, l) }) {
			continue
		}
		n, _ := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		sum += n
	}
	return sum
}
