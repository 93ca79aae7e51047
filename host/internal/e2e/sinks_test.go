package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/thole-dev/thole/host/internal/await"
)

// A sink that does not answer, one that answers without end, and one that redirects its events keep neither the
// plugin from running nor others from their events, and nobody gets what the policy does not send there.
func TestAHostileSinkDelaysNoOther(t *testing.T) {
	t.Parallel()
	installCRD(t, testdata+"stamp/crd.yaml")
	ns, d, good := namespace(t), newDirectory(t), newEventSink(t)
	var atOnce, most, floods, taken atomic.Int64
	var shown atomic.Bool
	release := make(chan struct{})
	const content = "what-is-in-the-object"
	elsewhere := newFetched(t, answerOK)
	stuck := newFetched(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if bytes.Contains(body, []byte(content)) {
			shown.Store(true)
		}
		most.Store(max(most.Load(), atOnce.Add(1)))
		defer atOnce.Add(-1)
		select {
		case <-release:
		case <-r.Context().Done(): // the host waits for a while, and sends it again
		}
	})
	luring := newFetched(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	})
	flooding := newFetched(t, func(w http.ResponseWriter, _ *http.Request) {
		for part := make([]byte, 64<<10); ; {
			n, err := w.Write(part)
			if taken.Add(int64(n)); err != nil {
				floods.Add(1)
				return
			}
		}
	})
	sink := func(name, address string) string {
		return fmt.Sprintf("{name: %s, url: 'http://%s/in', addresses: [loopback]}", name, address)
	}
	all := []string{sink("stuck", stuck.host()), sink("luring", luring.host()), sink("flooding", flooding.host()), sink("good", good.address)}
	policy := func(sinks ...string) {
		d.installPolicy("publisher", fmt.Sprintf("cloudEvents: {typePrefix: dev.thole, sinks: [%s]}\n", strings.Join(sinks, ", ")))
	}
	var allowed []string
	for _, address := range []string{stuck.host(), luring.host(), flooding.host(), good.address} {
		allowed = append(allowed, fmt.Sprintf("{host: '%s', scheme: http, methods: [POST], addresses: [loopback]}", address))
	}
	policy(all...)
	d.install("publisher", publishingPlugin())
	p := start(t, d, ns, fmt.Sprintf("allow: {http: {publisher: [%s]}}\n", strings.Join(allowed, ", ")))
	p.awaitRunning("publisher", 1)

	const objects = 20
	name := func(i int) string { return fmt.Sprint("s-", i) }
	for i := range objects {
		createStamp(t, ns, name(i), content)
	}
	for i := range objects {
		await.Until(t, name(i)+" is Ready", func() bool { return ready(get(t, stamps, ns, name(i))) })
		await.Until(t, name(i)+" is announced", func() bool { return len(good.about(ns+"/"+name(i), "watcher/stamp")) == 2 })
	}
	await.Until(t, "the endless answer is cut off", func() bool { return floods.Load() > 0 })
	if each := taken.Load() / floods.Load(); each > 64<<20 { // most is in buffers of the kernel
		t.Errorf("%d bytes of an answer were taken", each)
	}
	await.Until(t, "the redirect was seen", func() bool { return len(luring.got()) > 0 })
	await.Until(t, "there are events for the sink that does not answer", func() bool { return atOnce.Load() > 0 })
	if n := p.Metrics().Sum("thole_cloudevents_buffered", "sink", "stuck"); n < 2*objects {
		t.Errorf("%v events wait for the sink that does not answer", n)
	}

	// No policy sends events further than the configuration.
	policy(append(all, sink("elsewhere", elsewhere.host()))...)
	await.Until(t, "the policy is refused", func() bool {
		return strings.Contains(p.Plugin("publisher").LastError, "does not allow")
	})
	policy(all...)
	close(release)
	await.Until(t, "the sink that answers again gets its events", func() bool {
		return p.Metrics().Sum("thole_cloudevents_buffered", "sink", "stuck") == 0
	})
	if n := most.Load(); n > 4 {
		t.Errorf("%d requests at once went to one sink", n)
	}
	if shown.Load() {
		t.Error("an event has the content of an object")
	}
	if got := elsewhere.got(); len(got) > 0 {
		t.Errorf("where no policy sends events, %q came", got)
	}
	p.stop()
}
