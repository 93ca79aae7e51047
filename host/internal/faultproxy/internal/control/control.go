// Package control is the HTTP interface by which a test or a person changes the
// rules of a proxy and reads what it has seen.
package control

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/thole-dev/thole/host/internal/faultproxy/internal/proxy"
	"github.com/thole-dev/thole/host/internal/faultproxy/internal/rule"
)

// maxBody is far more than the rules of a test.
const maxBody = 1 << 20

// New returns the handler of the control interface.
func New(p *proxy.Proxy) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /rules", func(w http.ResponseWriter, _ *http.Request) { answer(w, p.Rules.Uses()) })
	mux.HandleFunc("PUT /rules", changeRules(p.Replace))
	mux.HandleFunc("POST /rules", changeRules(p.Add))
	mux.HandleFunc("PUT /process", setProcess(p))
	mux.HandleFunc("GET /requests", func(w http.ResponseWriter, _ *http.Request) { answer(w, p.Requests.Records()) })
	mux.HandleFunc("DELETE /requests", func(w http.ResponseWriter, _ *http.Request) {
		p.Requests.Clear()
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}

func answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // the client may have gone away
}

func changeRules(change func(context.Context, []rule.Rule) error) http.HandlerFunc {
	return withBody(func(w http.ResponseWriter, r *http.Request, body string) {
		rules, err := rule.ParseAll(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if err := change(r.Context(), rules); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
}

func setProcess(p *proxy.Proxy) http.HandlerFunc {
	return withBody(func(w http.ResponseWriter, _ *http.Request, body string) {
		pid, err := strconv.Atoi(strings.TrimSpace(body))
		if err != nil {
			http.Error(w, fmt.Sprintf("%q is not the id of a process: want a number", body), http.StatusBadRequest)
			return
		}
		if err := p.Process.Set(pid); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
}

func withBody(handle func(w http.ResponseWriter, r *http.Request, body string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		handle(w, r, string(body))
	}
}
