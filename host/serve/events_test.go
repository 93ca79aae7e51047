package serve

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
)

// eventsOf returns what a server that listens on an address answers to a POST of a path.
func eventsOf(t *testing.T, address, host, path string, events http.Handler) (status int, text string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s, err := Listen(ctx, Config{Address: address, Logger: hclog.NewNullLogger(), Metrics: prometheus.NewRegistry(), Events: events})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	defer func() {
		http.DefaultClient.CloseIdleConnections()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	_, port, _ := net.SplitHostPort(s.Address())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1:"+port+path, strings.NewReader("event"))
	if err != nil {
		t.Fatal(err)
	}
	r.Host = host
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(body)
}

// A token of a caller must not be sent over a network in clear text.
func TestEventsAreServedOnLoopbackAlone(t *testing.T) {
	events := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, "plugin "+r.PathValue("plugin"))
	})
	for _, test := range []struct {
		name, address, host, path string
		status                    int
		text                      string
	}{
		{"loopback", "127.0.0.1:0", "localhost", "/events", http.StatusAccepted, "plugin "},
		{"of a plugin", "127.0.0.1:0", "localhost", "/events/p", http.StatusAccepted, "plugin p"},
		{"another path", "127.0.0.1:0", "localhost", "/events/p/q", http.StatusNotFound, ""},
		{"a foreign host", "127.0.0.1:0", "evil.example", "/events", http.StatusMisdirectedRequest, ""},
		{"all interfaces", ":0", "127.0.0.1", "/events", http.StatusForbidden, "--webhook-listen"},
		{"all interfaces, of a plugin", "0.0.0.0:0", "127.0.0.1", "/events/p", http.StatusForbidden, "--webhook-listen"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if status, text := eventsOf(t, test.address, test.host, test.path, events); status != test.status || !strings.Contains(text, test.text) {
				t.Errorf("%d %s, want %d %s", status, text, test.status, test.text)
			}
		})
	}
	if status, _ := eventsOf(t, "127.0.0.1:0", "localhost", "/events", nil); status != http.StatusNotFound {
		t.Errorf("without events: %d", status)
	}
}
