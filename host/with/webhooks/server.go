package webhooks

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/net/netutil"

	contract "github.com/thole-dev/thole/abi/webhooks"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/runner"
	"github.com/thole-dev/thole/host/sanitize"
)

// Config configures a [Server].
type Config struct {
	Address string // host:port; port 0 selects a free one
	// Certificate returns the one to serve, or why there is none yet.
	Certificate func() (*tls.Certificate, error)
	Clients     *Clients // that may ask for reviews; nil: any
	// Controller returns the controller of a plugin that calls an export, such as
	// [contract.ExportConvert], nil if it has none of that name, or does not run. Conversions need only
	// be loaded.
	Controller func(export, plugin, controller string) Controller
	// Plugin returns what is known of a plugin, whether it runs or not.
	Plugin func(plugin string) (p Known, ok bool)
	// Handlers are for clients with a token and without a certificate, by the patterns of [http.ServeMux].
	Handlers map[string]http.Handler
	Metrics  Metrics
	Logger   hclog.Logger

	bodyTimeout time.Duration // for a request; default readTimeout
	drain       time.Duration // for which requests are still taken when the server is stopped; default 3 s
	grace       time.Duration // for those in progress after that; default 10 s
}

// Controller is a controller of a plugin.
type Controller interface {
	runner.Caller
	// Offers returns what the controller offers with a revision.
	Offers(rev *dispatch.Revision) contract.Webhooks
}

// Known is what is known of a plugin from its policy.
type Known struct {
	Webhooks *Settings // nil: the policy allows it none
	State    string    // such as "running", for messages
	// Loading states that its first revision is being started, and Controllers names those of the
	// running one, also while they are being replaced.
	Loading     bool
	Controllers []string
}

// isAwaited reports whether a controller that does not run will in a moment.
func (k *Known) isAwaited(controller string) bool {
	return k.Loading || slices.Contains(k.Controllers, controller)
}

// Metrics counts requests.
type Metrics interface {
	// Served counts a request that was answered, with its duration in seconds. review is
	// validate, mutate or convert, and result one of [Results].
	Served(plugin, review, result string, seconds float64)
	// Refused counts a request that was no review of a plugin that is known, or not allowed.
	Refused(reason string)
}

// The results of requests.
const (
	resultAllowed   = "allowed"
	resultDenied    = "denied"
	resultConverted = "converted"
	resultFailed    = "failed" // answered as the failure policy says
	resultRefused   = "refused"
)

// Results returns the results of [Metrics].Served for one of validate, mutate and convert.
func Results(review string) []string {
	if review == contract.ExportConvert {
		return []string{resultConverted, resultFailed, resultRefused}
	}
	return []string{resultAllowed, resultDenied, resultFailed, resultRefused}
}

// The reasons of [Metrics].Refused.
const (
	refusedClient = "client" // has no certificate that it needs
	refusedPath   = "path"   // of no plugin
	refusedBody   = "body"   // too large, too slow or not JSON
	refusedBusy   = "busy"   // the bound of all bodies together
)

// Reasons returns the reasons of [Metrics].Refused.
func Reasons() []string { return []string{refusedClient, refusedPath, refusedBody, refusedBusy} }

// Server serves reviews and conversions.
type Server struct {
	Config
	listener net.Listener
	server   *http.Server
	bodies   bodies
	calls    *calls
	failures failures
	draining atomic.Bool // it is being stopped
}

// Bounds of what clients can hold. A request of the API server is over in [Settings].Timeout
// and a little more, which is 30 s at most. The API server speaks HTTP/1.1 to a Service and to any
// host but localhost (HookClient in k8s.io/apiserver/pkg/util/webhook): it has a connection for each
// request in flight, of which it keeps 25 that are idle.
const (
	maxConnections    = 512
	maxStreams        = 250 // of one connection of HTTP/2, which clients on localhost have
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 10 * time.Second
	writeTimeout      = 45 * time.Second
	idleTimeout       = 90 * time.Second
)

// Listen returns a server that listens on the address. It serves requests in [Server.Run].
func Listen(ctx context.Context, c Config) (*Server, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", c.Address)
	if err != nil {
		return nil, fmt.Errorf("serve reviews: %w; choose another address with --webhooks-listen", err)
	}
	s := &Server{Config: c, listener: listener, bodies: newBodies(), calls: newCalls()}
	s.server = &http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       cmp.Or(c.bodyTimeout, readTimeout),
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    16 << 10,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxStreams, MaxReadFrameSize: 64 << 10, MaxReceiveBufferPerConnection: 4 << 20, MaxReceiveBufferPerStream: 1 << 20, SendPingTimeout: 30 * time.Second},
		ErrorLog:          c.Logger.StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}),
		TLSConfig: &tls.Config{
			MinVersion:     tls.VersionTLS12,
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.Certificate() },
			NextProtos:     []string{"h2", "http/1.1"},
			ClientAuth:     c.Clients.auth(),
		},
	}
	return s, nil
}

// Address returns the address of the listener.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Run serves until ctx is done. Then it still takes requests for a moment: the API server does not
// know yet that others serve them. It returns when those in progress have ended, or the grace
// period is over.
func (s *Server) Run(ctx context.Context) error {
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		s.shutDown(context.WithoutCancel(ctx))
	})
	// Further connections wait until one of these has ended. Who opens them all keeps others out, for
	// as long as the timeouts of a connection allow.
	err := s.server.ServeTLS(netutil.LimitListener(s.listener, maxConnections), "", "")
	if !errors.Is(err, http.ErrServerClosed) {
		if !stop() {
			<-stopped
		}
		return fmt.Errorf("serve reviews: %w", err)
	}
	<-stopped
	return nil
}

// shutDown lets the connections of HTTP/1.1 end with the answers that are sent meanwhile: a request
// fails that is sent on an idle connection while that is being closed.
func (s *Server) shutDown(ctx context.Context) {
	s.draining.Store(true)
	time.Sleep(cmp.Or(s.drain, 3*time.Second))
	graceful, cancel := context.WithTimeout(ctx, cmp.Or(s.grace, 10*time.Second))
	defer cancel()
	if s.server.Shutdown(graceful) != nil {
		s.server.Close()
	}
}

// Close frees the address of a server that has not run.
func (s *Server) Close() { s.listener.Close() }

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/"+contract.ExportValidate+"/{plugin}/{controller}", s.serve(contract.ExportValidate, s.admit))
	mux.HandleFunc("/"+contract.ExportMutate+"/{plugin}/{controller}", s.serve(contract.ExportMutate, s.admit))
	mux.HandleFunc("/"+contract.ExportConvert+"/{plugin}/{controller}", s.serve(contract.ExportConvert, s.convert))
	for pattern, handler := range s.Handlers {
		mux.Handle(pattern, handler)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.refuse(w, refusedPath, http.StatusNotFound, fmt.Sprintf("%s is no path of a review: they are /validate/PLUGIN/CONTROLLER, /mutate/PLUGIN/CONTROLLER and /convert/PLUGIN/CONTROLLER", sanitize.Line(sanitize.Truncate(r.URL.Path, maxShown))))
	})
	return s.closing(mux)
}

// closing tells clients of HTTP/1.1 to open no further requests on a connection while the server is
// being stopped. For HTTP/2 [http.Server.Shutdown] does.
func (s *Server) closing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.draining.Load() && r.ProtoMajor == 1 {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// maxShown bounds what an error shows of a request.
const maxShown = 200

// request is one request for a review or conversion of a plugin that is known.
type request struct {
	export     string // such as [contract.ExportValidate]
	plugin     string
	controller string
	known      Known
	held       *held // room for body and what it is converted to
	body       []byte
}

// answer is the response to a request.
type answer struct {
	result string // of [Results]
	body   any    // encoded as JSON; nil: err is the response
	err    *refusal
}

// refusal is why a request is not answered by a review. The API server does then as the
// failurePolicy of the webhook says, and shows the text.
type refusal struct {
	status int // of HTTP
	text   string
}

func refused(status int, format string, args ...any) answer {
	return answer{result: resultRefused, err: &refusal{status, fmt.Sprintf(format, args...)}}
}

// refuse responds to a request of no plugin that is known.
func (s *Server) refuse(w http.ResponseWriter, reason string, status int, text string) {
	s.Metrics.Refused(reason)
	s.Logger.Debug("request refused", "reason", reason, "error", text)
	http.Error(w, text, status)
}

// serve responds to the requests of one path.
func (s *Server) serve(export string, do func(context.Context, *request) answer) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		q := &request{export: export, plugin: r.PathValue("plugin"), controller: r.PathValue("controller"), held: s.bodies.begin(export)}
		defer q.held.release()
		if err := s.Clients.check(r, export); err != nil {
			s.refuse(w, refusedClient, http.StatusForbidden, err.Error())
			return
		}
		if missing := s.find(q); missing != "" { // its body is not read
			s.refuse(w, refusedPath, shownStatus, q.name()+": "+export+" failed: "+missing)
			return
		}
		if err := q.read(w, r); err != nil {
			s.refuse(w, err.reason, err.status, q.name()+": "+err.text)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), q.patience(r))
		defer cancel()
		a := do(ctx, q)
		s.Metrics.Served(q.plugin, export, a.result, time.Since(began).Seconds())
		s.respond(w, q, a)
	}
}

// shownStatus is that of a request which the API server is right to send, by a webhook that is not
// up to date: of other errors it does not show the text, see NewGenericServerResponse in
// k8s.io/apimachinery/pkg/api/errors. What follows is decided by the failurePolicy of the webhook.
const shownStatus = http.StatusInternalServerError

// find finds the plugin of a request. It returns why it has no webhook there, "" if it may have one.
func (s *Server) find(q *request) (missing string) {
	known, ok := s.Plugin(q.plugin)
	q.known = known
	end := "delete the webhook"
	if q.export == contract.ExportConvert {
		end = "end the conversion of the CustomResourceDefinition"
	}
	switch {
	case !ok:
		return "it is not in the plugin directory of the host: put it there, or " + end
	case known.Webhooks == nil:
		return "it is allowed no webhooks: write webhooks: {} to " + q.plugin + ".yaml and its name to allow.webhooks in the file of --config, or " + end
	case len(known.Controllers) > 0 && !known.isAwaited(q.controller) && s.Controller(q.export, q.plugin, q.controller) == nil:
		return "the plugin has no such controller: " + end
	}
	return ""
}

// name names the plugin and the controller, as errors do.
func (q *request) name() string {
	return "plugin " + quoted(q.plugin) + " controller " + quoted(q.controller)
}

func quoted(name string) string {
	return `"` + sanitize.Line(sanitize.Truncate(name, maxShown)) + `"`
}

// respond writes a response.
func (s *Server) respond(w http.ResponseWriter, q *request, a answer) {
	if a.err != nil {
		s.Logger.Debug("review refused", "plugin", q.plugin, "controller", q.controller, "error", a.err.text)
		http.Error(w, q.name()+": "+a.err.text, a.err.status)
		return
	}
	text, err := encode(a.body)
	if err != nil { // cannot happen: what plugins have written was checked
		http.Error(w, q.name()+": encode the response: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if _, err := w.Write(text); err != nil {
		s.Logger.Debug("cannot send the response of a review", "plugin", q.plugin, "error", err)
	}
}

// patience is how long a request may take: as long as the API server waits, less the time that the
// response takes. For the conversion of all objects of a review it has no time of its own.
func (q *request) patience(r *http.Request) time.Duration {
	waits := Patience(q.known.Webhooks)
	if q.export == contract.ExportConvert {
		waits = maxPatience
	}
	if asked, err := time.ParseDuration(r.URL.Query().Get("timeout")); err == nil && asked > 0 {
		waits = min(waits, asked)
	}
	return max(waits-onTheWay, waits/2)
}

// onTheWay is how long a response may take to the API server.
const onTheWay = 500 * time.Millisecond

// Patience is how long the API server waits for an answer: the timeout of the policy, and a margin
// for waits for an execution slot. It is whole seconds, and at most 30.
func Patience(w *Settings) time.Duration {
	if w == nil {
		w = NewSettings()
	}
	const margin = 3 * time.Second
	return min((w.Timeout.Duration + margin).Truncate(time.Second), maxPatience)
}

// maxPatience is the longest timeout that a webhook may have.
const maxPatience = 30 * time.Second

// methodAndType returns why a request cannot be a review, nil if it can.
func methodAndType(r *http.Request) *refusedBodyError {
	mediaType, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	switch {
	case r.Method != http.MethodPost:
		return &refusedBodyError{refusedBody, http.StatusMethodNotAllowed, "a review is sent by POST, not by " + sanitize.Line(sanitize.Truncate(r.Method, maxShown))}
	case strings.TrimSpace(mediaType) != "application/json":
		return &refusedBodyError{refusedBody, http.StatusUnsupportedMediaType, "a review is application/json, not " + quoted(mediaType)}
	}
	return nil
}
