package telemetry

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/events"
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
	if n := testutil.CollectAndCount(m.writes); n != 5 {
		t.Errorf("%d series of writes, want one for each verb", n)
	}
	c.Started()("error", abi.ClassPanic, 0.1)
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
	m.Controller("p/c", 1).Started()("success", abi.ClassNone, 1)
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
