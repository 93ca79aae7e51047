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

// answerOf returns what a server that listens on an address answers to a POST of a path.
func answerOf(t *testing.T, address, host, path string, handlers map[string]http.Handler) (status int, text string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s, err := Listen(ctx, Config{Address: address, Logger: hclog.NewNullLogger(), Metrics: prometheus.NewRegistry(), Handlers: handlers})
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
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1:"+port+path, strings.NewReader("order"))
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
func TestHandlersAreServedOnLoopbackAlone(t *testing.T) {
	orders := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, "plugin "+r.PathValue("plugin"))
	})
	handlers := map[string]http.Handler{"/orders": orders, "/orders/{plugin}": orders}
	for _, test := range []struct {
		name, address, host, path string
		status                    int
		text                      string
	}{
		{"loopback", "127.0.0.1:0", "localhost", "/orders", http.StatusAccepted, "plugin "},
		{"of a plugin", "127.0.0.1:0", "localhost", "/orders/p", http.StatusAccepted, "plugin p"},
		{"another path", "127.0.0.1:0", "localhost", "/orders/p/q", http.StatusNotFound, ""},
		{"a foreign host", "127.0.0.1:0", "evil.example", "/orders", http.StatusMisdirectedRequest, ""},
		{"all interfaces", ":0", "127.0.0.1", "/orders", http.StatusForbidden, "--metrics-secure"},
		{"all interfaces, of a plugin", "0.0.0.0:0", "127.0.0.1", "/orders/p", http.StatusForbidden, "--metrics-secure"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if status, text := answerOf(t, test.address, test.host, test.path, handlers); status != test.status || !strings.Contains(text, test.text) {
				t.Errorf("%d %s, want %d %s", status, text, test.status, test.text)
			}
		})
	}
	if status, _ := answerOf(t, "127.0.0.1:0", "localhost", "/orders", nil); status != http.StatusNotFound {
		t.Errorf("without handlers: %d", status)
	}
}
