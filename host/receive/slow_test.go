package receive

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thole-dev/thole/host/access"
	"github.com/thole-dev/thole/host/internal/await"
)

// The other replica runs the objects of a plugin that this one has ceased to lead: an event that is queued
// here would be lost, though its sender was told that it is not.
func TestAPluginThatGoesDuringARequestQueuesNothing(t *testing.T) {
	for name, goes := range map[string]func(*Receiver){
		"not led":  func(r *Receiver) { r.Leads = false },
		"stopped":  func(r *Receiver) { r.Controller = nil },
		"replaced": func(r *Receiver) { r.Controller = newController(nil) },
	} {
		t.Run("during the body, "+name, func(t *testing.T) {
			w, gone := newGoingWorld(t, goes)
			release := make(chan struct{})
			var sending sync.WaitGroup
			sending.Go(func() {
				status, header, text := w.send(post{token: "good-all", header: []string{"Content-Type: " + structured}, reader: func() io.Reader { return &waiting{release: release, rest: strings.NewReader(ce())} }})
				want := http.StatusServiceUnavailable
				if name == "replaced" { // by one without the object
					want = http.StatusNotFound
				}
				if status != want {
					t.Errorf("%d %s, %v", status, text, header)
				}
			})
			await.Until(t, "it is in", func() bool {
				w.room.mu.Lock()
				defer w.room.mu.Unlock()
				return w.room.requests == 1
			})
			gone()
			close(release)
			sending.Wait()
			w.expectSignalled(map[string]int{})
		})
		t.Run("during the review, "+name, func(t *testing.T) {
			w, gone := newGoingWorld(t, goes)
			w.reviewed = gone
			header, _ := w.expect(http.StatusServiceUnavailable, post{token: "good-all", header: []string{"Content-Type: " + structured}, body: ce()})
			if header.Get("Retry-After") != "1" {
				t.Error(header)
			}
			w.expectSignalled(map[string]int{})
		})
	}
}

// newGoingWorld returns a world, and what changes the receiver of labs.
func newGoingWorld(t *testing.T, goes func(*Receiver)) (w *world, gone func()) {
	var mu sync.Mutex
	isGone := false
	w = newWorld(t, func(c *Config, w *world) {
		lab := w.receivers[0]
		goes(&lab)
		c.Receivers = func() []Receiver {
			mu.Lock()
			defer mu.Unlock()
			if isGone {
				return []Receiver{lab}
			}
			return w.receivers
		}
	})
	return w, func() {
		mu.Lock()
		defer mu.Unlock()
		isGone = true
	}
}

// Whoever was let in is known after any amount of garbage, and does not wait for the reviews of that.
func TestGarbageNeitherForgetsNorDelaysACaller(t *testing.T) {
	w := newWorld(t, nil)
	good := post{token: "good-all", header: []string{"Content-Type: " + structured}, body: ce()}
	w.expect(http.StatusAccepted, good)
	for i := range 1024 { // more than are remembered
		w.clock.SetTime(w.clock.Now().Add(20 * time.Millisecond))
		w.expect(http.StatusUnauthorized, post{token: fmt.Sprint("garbage", i), header: good.header, body: ce()})
	}
	w.sendGarbage()
	w.expect(http.StatusAccepted, good)

	blocked := make(chan struct{})
	release := sync.OnceFunc(func() { close(blocked) })
	defer release()
	w.authenticated = func(token string) {
		if strings.HasPrefix(token, "slow") {
			<-blocked
		}
	}
	before := w.asked["token"]
	w.clock.SetTime(w.clock.Now().Add(time.Minute))
	var sending sync.WaitGroup
	for i := range access.MaxAsking {
		sending.Go(func() { w.send(post{token: fmt.Sprint("slow", i), header: good.header, body: ce()}) })
	}
	await.Until(t, "they wait", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.asked["token"] == before+access.MaxAsking
	})
	w.expect(http.StatusServiceUnavailable, post{token: "garbage", header: good.header, body: ce()})
	w.expect(http.StatusAccepted, good) // is asked for again
	w.expect(http.StatusAccepted, good) // is remembered
	release()
	sending.Wait()
}
