package scenario

import (
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"k8s.io/client-go/util/cert"

	"github.com/thole-dev/thole/host/internal/tholetest"
)

// service is a system outside of the cluster that plugins send requests to: an HTTPS server that
// keeps what is PUT under a path until it is DELETEd.
type service struct {
	server      *httptest.Server
	ca          []byte // PEM, of both certificates
	right       tls.Certificate
	wrong       tls.Certificate // for another host
	credentials string          // the header Authorization of the last request

	mu       sync.Mutex
	behave   string // how it answers: see serviceModes
	argument string
	stored   map[string]string
	handled  map[string]int // requests by method
}

// serviceModes are the ways in which it answers, with what their argument is.
var serviceModes = map[string]string{
	"up": "", "down": "", "slow": "TIME", "status": "CODE", "redirect": "URL", "moved": "", "wrong-certificate": "",
}

func newService() (*service, error) {
	s := &service{behave: "up", stored: map[string]string{}, handled: map[string]int{}}
	for at, host := range map[*tls.Certificate]string{&s.right: "localhost", &s.wrong: "other.example.com"} {
		certificate, key, err := cert.GenerateSelfSignedCertKey(host, nil, nil)
		if err != nil {
			return nil, err
		}
		if *at, err = tls.X509KeyPair(certificate, key); err != nil {
			return nil, err
		}
		s.ca = append(s.ca, certificate...)
	}
	s.server = httptest.NewUnstartedServer(s)
	s.server.Listener = refusing{s.server.Listener, s}
	s.server.TLS = &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		if mode, _ := s.mode(); mode == "wrong-certificate" {
			return &s.wrong, nil
		}
		return &s.right, nil
	}}
	s.server.Config.ErrorLog = hclog.NewNullLogger().StandardLogger(nil) // of handshakes that a plugin has ended
	s.server.StartTLS()
	return s, nil
}

// host is that of the URLs of the service.
func (s *service) host() string {
	_, port, _ := net.SplitHostPort(s.server.Listener.Addr().String())
	return "localhost:" + port
}

func (s *service) mode() (mode, argument string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.behave, s.argument
}

// refusing closes connections while the service is down.
type refusing struct {
	net.Listener
	s *service
}

func (l refusing) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if mode, _ := l.s.mode(); err != nil || mode != "down" {
			return c, err
		}
		c.Close()
	}
}

// ServeHTTP implements [http.Handler].
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// The server learns that the client has gone only after the body was read.
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return
	}
	mode, argument := s.mode()
	switch path, moved := strings.CutPrefix(r.URL.Path, "/moved"); {
	case mode == "slow":
		pause, _ := time.ParseDuration(argument) // was checked
		select {
		case <-time.After(pause):
			s.handle(w, r, path, string(body))
		case <-r.Context().Done():
		}
	case mode == "status":
		code, _ := strconv.Atoi(argument) // was checked
		w.WriteHeader(code)
	case mode == "redirect":
		http.Redirect(w, r, argument, http.StatusTemporaryRedirect)
	case mode == "moved" && !moved:
		w.Header().Set("Location", "/moved"+path)
		w.WriteHeader(http.StatusTemporaryRedirect)
	default:
		s.handle(w, r, path, string(body))
	}
}

func (s *service) handle(w http.ResponseWriter, r *http.Request, path, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handled[r.Method]++
	s.credentials = r.Header.Get("Authorization")
	value, known := s.stored[path]
	switch {
	case r.Method == http.MethodPut:
		s.stored[path] = body
	case r.Method == http.MethodDelete:
		delete(s.stored, path)
	case known:
		_, _ = io.WriteString(w, value)
	default:
		http.NotFound(w, r)
	}
}

// changeService starts the service of the script, and changes how it answers.
func changeService(s *script, args []string) error {
	if len(args) > 0 && args[0] == "start" {
		return s.startService(args[1:])
	}
	if s.service == nil {
		return errNoService
	}
	argument, known := serviceModes[strings.Join(args[:min(1, len(args))], "")]
	switch {
	case !known, len(args) == 1 != (argument == ""), len(args) > 2:
		return wrongUse("%q", args)
	case argument == "TIME":
		if _, err := time.ParseDuration(args[1]); err != nil {
			return wrongUse("%v", err)
		}
	case argument == "CODE":
		if _, err := strconv.Atoi(args[1]); err != nil {
			return wrongUse("%v", err)
		}
	}
	s.service.mu.Lock()
	s.service.behave, s.service.argument = args[0], strings.Join(args[1:], "")
	s.service.mu.Unlock()
	s.service.server.CloseClientConnections()
	return nil
}

var errNoService = errors.New("the service does not run: begin with `service start`")

// startService starts the service, and writes where it is into files.
func (s *script) startService(files []string) (err error) {
	if s.service != nil {
		return errors.New("the service runs already")
	}
	if s.service, err = newService(); err != nil {
		return err
	}
	s.tb.Cleanup(func() {
		s.service.server.CloseClientConnections()
		s.service.server.Close()
	})
	webhook, err := net.Listen("tcp", tholetest.RandomLoopback())
	if err != nil {
		return err
	}
	defer webhook.Close()
	known := strings.NewReplacer("$WEBHOOK", webhook.Addr().String(), "$SERVICE_CA", strings.ReplaceAll(string(s.service.ca), "\n", `\n`), "$SERVICE", s.service.host(), "$NS", s.namespace)
	for _, file := range files {
		text, err := os.ReadFile(s.path(file))
		if err != nil {
			return err
		}
		if err := os.WriteFile(s.path(file), []byte(known.Replace(string(text))), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// served checks what the service has, or has been sent.
func served(s *script, flags *flag.FlagSet, args []string) (func() error, error) {
	rest, err := parse(flags, args, 2, 3)
	switch {
	case err != nil:
		return nil, err
	case s.service == nil:
		return nil, errNoService
	}
	checks := map[string]func(*service, []string) bool{
		"has 3":           func(v *service, args []string) bool { return strings.Contains(v.stored[args[0]], args[1]) },
		"lacks 2":         func(v *service, args []string) bool { return v.stored[args[0]] == "" },
		"requests 3":      func(v *service, args []string) bool { return strconv.Itoa(v.handled[args[0]]) == args[1] },
		"authorization 2": func(v *service, args []string) bool { return v.credentials == args[0] },
	}
	holds, known := checks[fmt.Sprintf("%s %d", rest[0], len(rest))]
	if !known {
		return nil, wrongUse("%q", args)
	}
	return func() error {
		s.service.mu.Lock()
		defer s.service.mu.Unlock()
		if v := s.service; !holds(v, rest[1:]) {
			return fmt.Errorf("the service has %q, has handled %v, and the last Authorization was %q", v.stored, v.handled, v.credentials)
		}
		return nil
	}, nil
}
