package host

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/internal/await"
)

// withdrawing is an API server that serves widgets until it refuses them.
type withdrawing struct {
	refused chan struct{}
	refuse  func()
}

func withdraws(t *testing.T) (w withdrawing, url string) {
	w.refused = make(chan struct{})
	w.refuse = sync.OnceFunc(func() { close(w.refused) })
	server := httptest.NewServer(w)
	t.Cleanup(server.Close)
	t.Cleanup(w.refuse) // ends the watches, for which Close waits
	return w, server.URL
}

// ServeHTTP implements http.Handler.
func (w withdrawing) ServeHTTP(out http.ResponseWriter, request *http.Request) {
	out.Header().Set("Content-Type", "application/json")
	query := request.URL.Query()
	if request.URL.Path == "/apis/test.dev/v1" {
		fmt.Fprint(out, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"test.dev/v1","resources":[`+
			`{"name":"widgets","namespaced":true,"kind":"Widget","verbs":["get","list","watch"]}]}`)
		return
	}
	select {
	case <-w.refused:
		deny(out, http.StatusForbidden, "Forbidden")
		return
	default:
	}
	switch {
	case query.Get("sendInitialEvents") != "": // a server that does not stream lists
		deny(out, http.StatusUnprocessableEntity, "Invalid")
	case query.Get("watch") != "":
		out.(http.Flusher).Flush()
		select {
		case <-w.refused:
		case <-request.Context().Done():
		}
	default:
		fmt.Fprint(out, `{"kind":"WidgetList","apiVersion":"test.dev/v1","metadata":{"resourceVersion":"1"},"items":[]}`)
	}
}

func deny(out http.ResponseWriter, code int, reason string) {
	out.WriteHeader(code)
	fmt.Fprintf(out, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"message":"not for you","code":%d}`, reason, code)
}

// TestWhatAPluginFollowsAlreadyIsNotWaitedFor: else a right that was taken away
// would keep the policy from being narrowed, or bad code from being rolled
// back, while the code that runs goes on.
func TestWhatAPluginFollowsAlreadyIsNotWaitedFor(t *testing.T) {
	server, url := withdraws(t)
	c, err := cache.New(cache.Config{REST: &rest.Config{Host: url}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	kinds, running := []abi.Kind{widgets}, &informers{}
	first, err := acquire(t.Context(), c, kinds, running)
	if err != nil {
		t.Fatal(err)
	}
	running.replace(first)
	server.refuse()
	await.Until(t, "the informer fails", func() bool { return c.Stats()[0].Err != nil })

	p := &plugins{byName: map[string]*plugin{"p": {}}}
	p.byName["p"].kinds.replace(first)
	if got := p.running("p").troubles(); len(got) != 1 || got[0] != "test.dev/v1 Widget: not for you" {
		t.Errorf("the trouble is told as %q", got)
	}
	if got := p.running("q").troubles(); len(got) != 0 {
		t.Errorf("of a plugin that does not run: %q", got)
	}

	again, err := acquire(t.Context(), c, kinds, running)
	if err != nil {
		t.Errorf("another generation of the plugin: %v", err)
	}
	release(again)
	_, err = acquire(t.Context(), c, kinds, &informers{})
	if _, waits := errors.AsType[*catalog.WaitError](err); !waits {
		t.Errorf("another plugin: %v", err)
	}
}
