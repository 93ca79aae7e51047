// Package serve is the HTTP server of the host. It serves probes, metrics and the status of the plugins, all of them
// read-only, and what its user adds.
package serve

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/net/netutil"
)

// Check is one part of readiness.
type Check struct {
	Name string
	// Ready returns nil if the part is ready, else the reason why it is not.
	Ready func() error
}

// Config configures a [Server].
type Config struct {
	Address string // host:port; port 0 selects a free one
	Metrics prometheus.Gatherer
	Checks  func() []Check // of /readyz, in order
	Plugins func() any     // of /plugins, encoded as JSON
	// Handlers are for clients with a token, which they check themselves: over TLS or from this machine, by the
	// patterns of [http.ServeMux].
	Handlers map[string]http.Handler
	// Views are handlers of GET requests of a path and of those below it, for clients who may get the path.
	Views  map[string]http.Handler
	Secure *Secure // nil: everything is served to everybody who reaches the address
	// Profiling serves /debug/pprof/.
	Profiling bool
	Logger    hclog.Logger

	grace       time.Duration // for running requests when the server stops; default 2 s
	connections int           // at once; default maxConnections
	readTimeout time.Duration // for a request; default 10 s, of which 5 s for its header
}

// maxConnections bounds what clients can hold. Others wait until one of these has ended.
const maxConnections = 512

// Server serves /healthz, /readyz, /metrics, /plugins, handlers of its user and profiles to requests for its own host.
type Server struct {
	config   Config
	listener net.Listener
	server   *http.Server
}

// Listen returns a server that listens on the address. It serves requests in
// [Server.Run].
func Listen(ctx context.Context, c Config) (*Server, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", c.Address)
	if err != nil {
		return nil, fmt.Errorf("serve probes and metrics: %w; choose another address with --listen", err)
	}
	s := &Server{config: c, listener: listener}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	writeTimeout := 30 * time.Second
	if c.Profiling {
		writeTimeout = time.Minute // a profile takes 30 s, if no other time is asked for
	}
	s.server = &http.Server{
		Handler:           c.Secure.closing(hostsOf(c.Address, listener.Addr()).check(s.handler())),
		ReadHeaderTimeout: cmp.Or(c.readTimeout, 5*time.Second),
		ReadTimeout:       cmp.Or(c.readTimeout, 10*time.Second),
		WriteTimeout:      writeTimeout,
		IdleTimeout:       60 * time.Second,
		MaxHeaderBytes:    16 << 10,
		Protocols:         protocols,
		// OPTIONS * is for the handler, too: the general one keeps the connection.
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     c.Logger.StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}),
	}
	return s, nil
}

// Address returns the address of the listener.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Run serves until ctx is done, and returns when the running requests have
// ended or the grace period is over.
func (s *Server) Run(ctx context.Context) error {
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		s.shutDown(context.WithoutCancel(ctx))
	})
	connections := cmp.Or(s.config.connections, maxConnections)
	listener := netutil.LimitListener(s.listener, connections)
	if s.config.Secure != nil {
		listener = tls.NewListener(limitAddresses(listener, connections/addressShare), s.config.Secure.tls())
	}
	if err := s.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		if !stop() {
			<-stopped
		}
		return fmt.Errorf("serve probes and metrics: %w", err)
	}
	<-stopped
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
	for pattern, handler := range s.config.Handlers {
		mux.Handle(pattern, s.withToken(handler))
	}
	secure := s.config.Secure
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", s.ready)
	mux.Handle("GET /plugins", secure.protect("/plugins", http.HandlerFunc(s.plugins)))
	mux.Handle("GET /metrics", secure.protect("/metrics", promhttp.HandlerFor(s.config.Metrics, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError,
	})))
	for path, view := range s.config.Views {
		view = secure.protect(path, view)
		mux.Handle("GET "+path, view)
		mux.Handle("GET "+path+"/", view)
	}
	if s.config.Profiling {
		for path, profile := range profiles {
			mux.Handle("GET "+path, secure.protect("/debug/pprof", profile))
		}
	}
	return mux
}

// profiles are what net/http/pprof serves, by path. Other profiles are below the first.
var profiles = map[string]http.HandlerFunc{
	"/debug/pprof/": pprof.Index, "/debug/pprof/cmdline": pprof.Cmdline, "/debug/pprof/profile": pprof.Profile,
	"/debug/pprof/symbol": pprof.Symbol, "/debug/pprof/trace": pprof.Trace,
}

// withToken returns what serves requests of clients that send a token, which must not be sent in clear text over a
// network.
func (s *Server) withToken(handler http.Handler) http.Handler {
	switch {
	case s.config.Secure == nil && hostsOf(s.config.Address, s.listener.Addr()).loopback:
		return handler
	case s.config.Secure != nil:
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			keepOpen(w) // the handler closes it for those without a token
			handler.ServeHTTP(w, r)
		})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		http.Error(w, "this is served over TLS alone beyond this machine: start the host with --metrics-secure, or send the request to an address of the host that is served over TLS", http.StatusForbidden)
	})
}

// ready responds with 200 if every check passes, else with 503 and the checks
// that fail. With ?verbose it lists all checks, as Kubernetes components do.
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
		fmt.Fprintln(w, "ok")
	}
}

func (s *Server) plugins(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(s.config.Plugins()); err != nil {
		s.config.Logger.Debug("cannot send the response for /plugins", "error", err)
	}
}
