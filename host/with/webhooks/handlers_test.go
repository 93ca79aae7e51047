package webhooks

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// Who sends other requests has a token, and none of the certificates that the API server has.
func TestHandlersNeedNoCertificateOfAClient(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, inPEM(newAuthority(t).certificate), 0o644); err != nil {
		t.Fatal(err)
	}
	clients, err := NewClients(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := serveTest(t, newTestController(allow), func(c *Config) {
		c.Clients = clients
		orders := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusAccepted)
			_, _ = io.WriteString(w, "plugin "+r.PathValue("plugin"))
		})
		c.Handlers = map[string]http.Handler{"/orders": orders, "/orders/{plugin}": orders}
	})
	for path, want := range map[string]string{"/orders": "plugin ", "/orders/p": "plugin p"} {
		if status, text := s.post(path, "{}"); status != http.StatusAccepted || text != want {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	if status, _ := s.post("/validate/p/c", create("")); status != http.StatusForbidden {
		t.Errorf("a review without a certificate: %d", status)
	}
	if without := serveTest(t, nil, nil); without.counted(refusedPath) != 0 {
		t.Error("there are refusals")
	} else if status, _ := without.post("/orders", "{}"); status != http.StatusNotFound || without.counted(refusedPath) != 1 {
		t.Errorf("a server without handlers: %d", status)
	}
}
