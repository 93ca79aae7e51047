package telemetry

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/outcome"
)

func TestKlogAndSlogWriteToTheLogger(t *testing.T) {
	var out bytes.Buffer
	logger, err := NewLogger(LogConfig{Level: "info", Format: "json", Output: &out})
	if err != nil {
		t.Fatal(err)
	}
	defer klog.ClearLogger()
	before := slog.Default()
	defer slog.SetDefault(before)
	BridgeKubernetes(logger)

	klog.ErrorS(errors.New("refused"), "Failed to watch", "type", "v1.Pod")
	klog.Info("plain")
	slog.Warn("from slog", "a", 1)
	logr.New(&logrSink{logger: logger}).V(5).Info("too verbose")

	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 3 {
		t.Fatalf("%d lines, want 3:\n%s", len(lines), out.String())
	}
	var first map[string]any
	if err := json.Unmarshal([]byte(lines[0]), &first); err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string]string{"@level": "error", "@message": "Failed to watch", "error": "refused", "type": "v1.Pod"} {
		if first[field] != want {
			t.Errorf("%s is %v, want %s", field, first[field], want)
		}
	}
}

// lockedBuffer is written to by a goroutine of net/http.
type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

// A server that sends more than the length of its answer makes net/http log that.
func TestWhatIsBehindAnAnswerIsNotLogged(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, out, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = out.WriteString("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello, you sent the-token")
		_ = out.Flush()
		_, _ = conn.Read(make([]byte, 1)) // until the client has closed it
	}))
	defer server.Close()
	out := &lockedBuffer{}
	logger, err := NewLogger(LogConfig{Level: "info", Format: "json", Output: out})
	if err != nil {
		t.Fatal(err)
	}
	defer klog.ClearLogger()
	before, flags, output := slog.Default(), log.Flags(), log.Writer()
	defer func() {
		slog.SetDefault(before)
		log.SetFlags(flags)
		log.SetOutput(output)
	}()
	BridgeKubernetes(logger)
	transport := &http.Transport{}
	answer, err := (&http.Client{Transport: transport}).Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	answer.Body.Close()
	await.Until(t, "net/http has logged it", func() bool { return out.String() != "" })
	if text := out.String(); !strings.Contains(text, unsolicited) || strings.Contains(text, "token") {
		t.Errorf("logged %s", text)
	}
}

// Whoever writes a line, and whatever the type of its values is.
func TestEveryLineHasTheSchema(t *testing.T) {
	var missing *apierrors.StatusError
	out := &lockedBuffer{}
	logger, err := NewLogger(LogConfig{Level: "debug", Format: "json", Output: out})
	if err != nil {
		t.Fatal(err)
	}
	library := logr.New(&logrSink{logger: logger.Named("client-go")})
	write := map[string]func(){
		"values":  func() { logger.Named("a").With("d", time.Minute).Info("m", "s", "x", "n", 1, "b", true) },
		"error":   func() { logger.Warn("m", "error", apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "p")) },
		"nothing": func() { logger.Debug("m", "error", error(nil), "none", missing) },
		"lists": func() {
			logger.Error("m", "reasons", []abi.Reason{abi.ReasonOwned}, "times", []time.Duration{time.Second})
		},
		"structs": func() {
			logger.Info("m", "kind", abi.Kind{APIVersion: "v1", Kind: "Pod"}, "at", time.Unix(0, 0), "map", map[string]int{"a": 1})
		},
		"library": func() {
			library.WithValues("object", 1).Info("m", "event", &corev1.Event{Reason: "R"}, "after", time.Second)
			library.Error(errors.New("e"), "m", "plugin", corev1.Event{})
		},
	}
	want := map[string]string{
		"values":  `"b":true,"d":"1m0s","n":1,"s":"x"`,
		"error":   `"error":"pods \"p\" not found"`,
		"nothing": `"none":"\u003cnil\u003e"`,
		"lists":   `"reasons":["owned"],"times":["1s"]`,
		"structs": `"at":"1970-01-01T00:00:00Z","kind":"v1 Pod","map":"map[a:1]"`,
		"library": `"after":"1s","library.event":"`,
	}
	for name, log := range write {
		t.Run(name, func(t *testing.T) {
			out.Reset()
			log()
			for line := range strings.Lines(out.String()) {
				var fields map[string]any
				if err := json.Unmarshal([]byte(line), &fields); err != nil {
					t.Fatal(err)
				}
				for field, value := range fields {
					if _, is := value.(map[string]any); is || value == nil || field == "event" || field == "plugin" {
						t.Errorf("%q is %v in %s", field, value, line)
					}
				}
			}
			if text := out.String(); !strings.Contains(text, want[name]) {
				t.Errorf("%s\ndoes not have %s", text, want[name])
			}
		})
	}
}

func TestUnknownLogLevelOrFormatIsRefused(t *testing.T) {
	if _, err := NewLogger(LogConfig{Level: "loud", Format: "json"}); err == nil || !strings.Contains(err.Error(), `"loud"`) {
		t.Errorf("got %v", err)
	}
	if _, err := NewLogger(LogConfig{Level: "info", Format: "xml"}); err == nil || !strings.Contains(err.Error(), `"xml"`) {
		t.Errorf("got %v", err)
	}
}

func TestSeriesOfAControllerExistAtZeroUntilItStops(t *testing.T) {
	m := NewMetrics()
	c := m.Controller("p/c", 4)
	if n := testutil.CollectAndCount(m.reconciles); n != len(outcome.Metrics()) {
		t.Errorf("%d series of results, want %d", n, len(outcome.Metrics()))
	}
	if n := testutil.CollectAndCount(m.failures); n != len(abi.Classes()) {
		t.Errorf("%d series of classes, want %d", n, len(abi.Classes()))
	}
	for i, v := range m.byLabel["controller"] {
		if testutil.CollectAndCount(v) == 0 {
			descriptions := make(chan *prometheus.Desc, 1)
			v.Describe(descriptions)
			t.Errorf("%d: no series of %s", i, <-descriptions)
		}
	}
	if n := testutil.CollectAndCount(m.writes); n != 6 {
		t.Errorf("%d series of writes, want one for each verb", n)
	}
	c.Started()(outcome.Decision{Metric: outcome.MetricError, Class: abi.ClassPanic}, 0.1)
	if got := testutil.ToFloat64(m.failures.WithLabelValues("p/c", "panic")); got != 1 {
		t.Errorf("panics: %v", got)
	}
	c.Wrote("apply")
	c.Stopped()
	for name, n := range map[string]int{
		"reconciles": testutil.CollectAndCount(m.reconciles),
		"failures":   testutil.CollectAndCount(m.failures),
		"writes":     testutil.CollectAndCount(m.writes),
	} {
		if n != 0 {
			t.Errorf("%d series of %s remain", n, name)
		}
	}
}

func TestReconciliationsAreCountedByResult(t *testing.T) {
	m := NewMetrics()
	c := m.Controller("p/c", 1)
	backoff := outcome.Next{Kind: outcome.Backoff}
	for _, ended := range []outcome.Decision{
		{Metric: outcome.MetricSuccess},
		{Metric: outcome.MetricRequeueAfter, Class: abi.ClassWaiting}, // is no error
		{Metric: outcome.MetricError, Class: abi.ClassRetry, Next: backoff},
		{Metric: outcome.MetricError, Class: abi.ClassRetry}, // its attempts are used up
		{Metric: outcome.MetricError, Class: abi.ClassStalled},
		{Metric: outcome.MetricError, Class: abi.ClassPanic, Next: backoff},
		{Metric: outcome.MetricError, Class: abi.ClassOutOfMemory, Next: backoff},
		{Metric: outcome.MetricError, Class: abi.ClassStackOverflow, Next: backoff},
		{Metric: outcome.MetricError, Class: abi.ClassTimeout, Next: backoff},
	} {
		c.Started()(ended, 2)
	}
	for result, want := range map[outcome.Metric]float64{outcome.MetricSuccess: 1, outcome.MetricRequeueAfter: 1, outcome.MetricError: 7, outcome.MetricRequeue: 0} {
		if got := testutil.ToFloat64(m.reconciles.WithLabelValues("p/c", string(result))); got != want {
			t.Errorf("%v of the result %s, want %v", got, result, want)
		}
	}
	for name, one := range map[string]struct {
		of   *prometheus.CounterVec
		want float64
	}{"errors": {m.errors, 7}, "terminal errors": {m.terminal, 2}, "panics": {m.panics, 3}, "timeouts": {m.timeouts, 1}} {
		if got := testutil.ToFloat64(one.of.WithLabelValues("p/c")); got != one.want {
			t.Errorf("%v %s, want %v", got, name, one.want)
		}
	}
	families, err := m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "controller_runtime_reconcile_time_seconds" {
			continue
		}
		if h := f.GetMetric()[0].GetHistogram(); h.GetSampleCount() != 9 || h.GetSampleSum() != 18 {
			t.Errorf("the durations are %v, want 9 with a sum of 18 s", h)
		}
	}
}

func TestRequestsAreCounted(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	m := NewMetrics()
	config := &rest.Config{Host: server.URL}
	m.Instrument(config)
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Get(server.URL + "/api")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	if got := testutil.ToFloat64(m.requests.WithLabelValues("404", "GET", host)); got != 1 {
		t.Errorf("counted %v", got)
	}
}

func TestNamesFollowTheConventionsOfPrometheus(t *testing.T) {
	m := NewMetrics()
	m.Controller("p/c", 1).Started()(outcome.Decision{Metric: outcome.MetricSuccess}, 1)
	m.countEvent(events.PluginStarted{Revision: events.Revision{Plugin: "p", Version: "1", Digest: "abc"}})
	m.countEvent(events.PluginRefused{Plugin: "p", Step: "parse"})
	m.countEvent(events.PluginRolledBack{From: events.Revision{Plugin: "p"}})
	m.WorkQueues().NewAddsMetric("p/c").Inc()
	m.Plugin("p")
	families, err := m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}
