package proxy

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/host/internal/faultproxy/internal/journal"
	"github.com/thole-dev/thole/host/internal/faultproxy/internal/rule"
)

// world is an API server, its proxy, and a client of the proxy.
type world struct {
	*testing.T
	proxy  *Proxy
	client *kubernetes.Clientset

	dials   atomic.Int32 // connections of the client
	current atomic.Int32 // requests that the proxy has not ended
	watches atomic.Int32 // open at the API server

	mu      sync.Mutex
	arrived []string      // requests at the API server
	events  chan string   // of its watches
	headers []http.Header // of the requests
}

// inEachProtocol runs a test over HTTP/1.1 and HTTP/2.
func inEachProtocol(t *testing.T, test func(*world)) {
	t.Helper()
	for _, protocol := range []string{"http/1.1", "h2"} {
		t.Run(protocol, func(t *testing.T) { test(newWorld(t, protocol)) })
	}
}

func newWorld(t *testing.T, protocol string) *world {
	t.Helper()
	w := &world{T: t, events: make(chan string, 10)}
	server := httptest.NewServer(http.HandlerFunc(w.serve))
	t.Cleanup(server.Close)
	var err error
	w.proxy, err = New(&rest.Config{Host: server.URL, BearerToken: "own"})
	w.must(err)
	t.Cleanup(w.proxy.Close)

	front := httptest.NewUnstartedServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		w.current.Add(1)
		defer w.current.Add(-1)
		w.proxy.ServeHTTP(out, r)
	}))
	front.EnableHTTP2 = true
	front.Config.ConnContext = SaveConnection
	front.StartTLS()
	t.Cleanup(front.Close)
	t.Cleanup(front.CloseClientConnections)
	w.client, err = kubernetes.NewForConfig(&rest.Config{
		Host:            front.URL,
		TLSClientConfig: rest.TLSClientConfig{Insecure: true, NextProtos: []string{protocol}},
		ContentConfig:   rest.ContentConfig{ContentType: "application/json"}, // not protobuf
		QPS:             -1,
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			w.dials.Add(1)
			return (&net.Dialer{}).DialContext(ctx, network, address)
		},
	})
	w.must(err)
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

const pod = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x","namespace":"a","resourceVersion":"42"}}`

// serve is a little of an API server.
func (w *world) serve(out http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.mu.Lock()
	w.arrived = append(w.arrived, r.Method+" "+r.URL.RequestURI())
	w.headers = append(w.headers, r.Header)
	w.mu.Unlock()
	out.Header().Set("Content-Type", "application/json")
	switch {
	case r.URL.Query().Has("watch"):
		w.serveWatch(out, r)
	case r.Method == http.MethodPost:
		out.WriteHeader(http.StatusCreated)
		_, _ = out.Write(body)
	case strings.HasSuffix(r.URL.Path, "/x"):
		_, _ = io.WriteString(out, pod)
	default:
		fmt.Fprintf(out, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"42"},"items":[%s]}`, pod)
	}
}

func (w *world) serveWatch(out http.ResponseWriter, r *http.Request) {
	w.watches.Add(1)
	defer w.watches.Add(-1)
	flush := http.NewResponseController(out).Flush
	_ = flush()
	for {
		select {
		case e := <-w.events:
			_, _ = io.WriteString(out, e+"\n")
			_ = flush()
		case <-r.Context().Done():
			return
		}
	}
}

func (w *world) requests() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.arrived)
}

func (w *world) expectArrived(want ...string) {
	w.Helper()
	if got := w.requests(); !slices.Equal(got, want) {
		w.Errorf("at the API server arrived %q, want %q", got, want)
	}
}

func (w *world) rules(text string) {
	w.Helper()
	rules, err := rule.ParseAll(text)
	w.must(err)
	w.must(w.proxy.Replace(w.Context(), rules))
}

func (w *world) get() (*corev1.Pod, error) {
	return w.client.CoreV1().Pods("a").Get(w.Context(), "x", metav1.GetOptions{})
}

func (w *world) create() error {
	_, err := w.client.CoreV1().Pods("a").Create(w.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "new"}}, metav1.CreateOptions{})
	return err
}

// await polls until done returns true.
func (w *world) await(what string, done func() bool) {
	w.Helper()
	deadline, tick := time.After(time.Minute), time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-deadline:
			w.Fatal("not within a minute: " + what)
		}
	}
}

// awaitApplied waits until the first rule has been applied n times.
func (w *world) awaitApplied(n int) {
	w.Helper()
	w.await("the rule is applied", func() bool { return w.proxy.Rules.Uses()[0].Applied == n })
}

// last returns the record of the request that arrived last.
func (w *world) last() journal.Record {
	w.Helper()
	records := w.proxy.Requests.Records()
	if len(records) == 0 {
		w.Fatal("no request arrived")
	}
	return records[len(records)-1]
}
