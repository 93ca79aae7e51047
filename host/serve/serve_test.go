package serve

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/thole-dev/thole/host/internal/await"
)

func TestMain(m *testing.M) { await.Main(m, func() error { return goleak.Find() }) }

// start runs a server on a free port until the test ends, and returns its URL.
func start(t *testing.T, c Config) string {
	t.Helper()
	c.Address, c.Logger = "127.0.0.1:0", hclog.NewNullLogger()
	ctx, cancel := context.WithCancel(context.Background())
	s, err := Listen(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return "http://" + s.Address()
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func TestReadyzNamesTheChecksThatFail(t *testing.T) {
	missing := errors.New("no response yet")
	var err error
	url := start(t, Config{Metrics: prometheus.NewRegistry(), Checks: func() []Check {
		return []Check{{"api-server", func() error { return err }}, {"directory", func() error { return nil }}}
	}})
	err = missing
	if status, body := get(t, url+"/readyz"); status != 503 || body != "[-] api-server: no response yet\n" {
		t.Errorf("%d %s", status, body)
	}
	err = nil
	if status, body := get(t, url+"/readyz?verbose"); status != 200 || body != "[+] api-server\n[+] directory\nok\n" {
		t.Errorf("%d %s", status, body)
	}
}

func TestPluginsMetricsAndLivenessAreServed(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "x", Help: "x"}))
	url := start(t, Config{Metrics: registry, Plugins: func() any { return []map[string]string{{"name": "a"}} }})
	if status, body := get(t, url+"/plugins"); status != 200 || !strings.Contains(body, `"name": "a"`) {
		t.Errorf("%d %s", status, body)
	}
	if status, body := get(t, url+"/metrics"); status != 200 || !strings.Contains(body, "\nx 0") {
		t.Errorf("%d %s", status, body)
	}
	if status, _ := get(t, url+"/healthz"); status != 200 {
		t.Error(status)
	}
}

func TestAddressInUseIsRefused(t *testing.T) {
	url := start(t, Config{Metrics: prometheus.NewRegistry()})
	_, err := Listen(context.Background(), Config{Address: strings.TrimPrefix(url, "http://"), Logger: hclog.NewNullLogger()})
	if err == nil || !strings.Contains(err.Error(), "--listen") {
		t.Errorf("got %v", err)
	}
}

// TestRunningRequestEndsBeforeRunReturns covers a request at the time when the
// process is stopped, which exits when Run returns.
func TestRunningRequestEndsBeforeRunReturns(t *testing.T) {
	requested, respond := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	s, err := Listen(ctx, Config{
		Address: "127.0.0.1:0", Logger: hclog.NewNullLogger(), Metrics: prometheus.NewRegistry(), grace: time.Minute,
		Plugins: func() any { close(requested); <-respond; return "all is well" },
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	responded := make(chan error, 1)
	go func() {
		defer http.DefaultClient.CloseIdleConnections()
		response, err := http.Get("http://" + s.Address() + "/plugins")
		if err == nil {
			_, err = io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
		responded <- err
	}()
	<-requested
	cancel()
	await.Until(t, "connections are refused", func() bool {
		c, err := net.Dial("tcp", s.Address())
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	select {
	case err := <-ended:
		t.Errorf("Run returned %v before the request had ended", err)
		ended <- err
	default:
	}
	close(respond)
	if err := <-responded; err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
