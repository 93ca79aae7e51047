// Package serve is what the host shows of itself over HTTP: probes, metrics
// and the state of its plugins. It only reads.
package serve

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Check is one part of readiness.
type Check struct {
	Name string
	// Ready returns nil when the part is ready, else why not.
	Ready func() error
}

// Config is what a [Server] shows.
type Config struct {
	Address string // host:port; port 0 takes a free one
	Metrics prometheus.Gatherer
	Checks  func() []Check // of /readyz, in order
	Plugins func() any     // of /plugins, encoded as JSON
	Logger  hclog.Logger

	grace time.Duration // how long answers under way may take after the end; default 2 s
}

// Server answers /healthz, /readyz, /metrics and /plugins.
type Server struct {
	config   Config
	listener net.Listener
	server   *http.Server
}

// Listen takes the address; an error says what to do if it is taken.
func Listen(ctx context.Context, c Config) (*Server, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", c.Address)
	if err != nil {
		return nil, fmt.Errorf("serve probes and metrics: %w; choose another address with --listen", err)
	}
	s := &Server{config: c, listener: listener}
	s.server = &http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       60 * time.Second,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          c.Logger.StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}),
	}
	return s, nil
}

// Address returns the address that is listened on.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Run serves until ctx is done and the answers under way are sent.
func (s *Server) Run(ctx context.Context) error {
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		s.shutDown(context.WithoutCancel(ctx))
	})
	if err := s.server.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		if !stop() {
			<-ended
		}
		return fmt.Errorf("serve probes and metrics: %w", err)
	}
	<-ended
	return nil
}

func (s *Server) shutDown(ctx context.Context) {
	graceful, cancel := context.WithTimeout(ctx, cmp.Or(s.config.grace, 2*time.Second))
	defer cancel()
	if s.server.Shutdown(graceful) != nil {
		s.server.Close()
	}
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", s.ready)
	mux.HandleFunc("GET /plugins", s.plugins)
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.config.Metrics, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError,
	}))
	return mux
}

// ready answers 200 when every check passes, else 503 and what does not. With
// ?verbose it lists every check.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	verbose := r.URL.Query().Has("verbose")
	var lines []string
	status := http.StatusOK
	for _, check := range s.config.Checks() {
		err := check.Ready()
		if err != nil {
			status = http.StatusServiceUnavailable
			lines = append(lines, fmt.Sprintf("[-] %s: %v", check.Name, err))
		} else if verbose {
			lines = append(lines, "[+] "+check.Name)
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	for _, line := range lines {
		fmt.Fprintln(w, line)
	}
	if status == http.StatusOK {
		io.WriteString(w, "ok\n") //nolint:errcheck // nobody is left to tell
	}
}

func (s *Server) plugins(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(s.config.Plugins()); err != nil {
		s.config.Logger.Debug("answer /plugins", "error", err)
	}
}
