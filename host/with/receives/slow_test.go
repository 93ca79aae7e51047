package receives

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/thole-dev/thole/host/access"
	"github.com/thole-dev/thole/host/internal/await"
)

// The other replica runs the objects of a plugin that this one has ceased to lead: an event that is queued
// here would be lost, though its sender was told that it is not.
func TestAPluginThatGoesDuringARequestQueuesNothing(t *testing.T) {
	for name, goes := range map[string]func(*Receiver){
		"not led":  func(r *Receiver) { r.Controller.(*controller).away.Store(true) },
		"stopped":  func(r *Receiver) { r.Controller = nil },
		"replaced": func(r *Receiver) { r.Controller = newController(resource("labs", true), nil) },
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
	isGone, lab := false, Receiver{}
	w = newWorld(t, func(c *Config, w *world) {
		lab = w.receivers[0]
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
		goes(&lab)
		isGone = true
	}
}

// Whoever was let in is known after any amount of garbage, and does not wait for the reviews of that.
func TestGarbageNeitherForgetsNorDelaysACaller(t *testing.T) {
	w := newWorld(t, nil)
	good := post{token: "good-all", header: []string{"Content-Type: " + structured}, body: ce()}
	w.expect(http.StatusAccepted, good)
	for i := range 1024 { // more than are remembered
		w.clock.SetTime(w.clock.Now().Add(time.Second))
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
		sending.Go(func() {
			w.send(post{token: fmt.Sprint("slow", i), header: []string{good.header[0], from(i % 4)}, body: ce()})
		})
	}
	await.Until(t, "they wait", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.asked["token"] == before+access.MaxAsking
	})
	w.expect(http.StatusServiceUnavailable, post{token: "garbage", header: []string{good.header[0], from(4)}, body: ce()})
	w.expect(http.StatusAccepted, good) // is asked for again
	w.expect(http.StatusAccepted, good) // is remembered
	release()
	sending.Wait()
}

// Whoever sends garbage from one address keeps nobody out who comes from another one for the first time.
func TestGarbageOfOneAddressKeepsNobodyElseOut(t *testing.T) {
	w := newWorld(t, nil)
	header := "Content-Type: " + structured
	w.sendGarbage()
	w.expect(http.StatusServiceUnavailable, post{token: "good-by-name", header: []string{header}, body: ce()})
	w.expect(http.StatusAccepted, post{token: "good-all", header: []string{header, from(1)}, body: ce()})

	// Nor who has many requests wait for a review, of the same token.
	blocked, before := make(chan struct{}), w.asked["token"]
	w.authenticated = func(token string) {
		if token == "slow" {
			<-blocked
		}
	}
	var sending sync.WaitGroup
	var refused atomic.Int32
	for range access.MaxAsking {
		sending.Go(func() {
			if status, _, _ := w.send(post{token: "slow", header: []string{header, from(2)}, body: ce()}); status == http.StatusServiceUnavailable {
				refused.Add(1)
			}
		})
	}
	await.Until(t, "some are refused, and others wait", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.asked["token"] == before+1 && refused.Load() == access.MaxAsking*3/4
	})
	w.expect(http.StatusAccepted, post{token: "good-in-a", header: []string{header, from(3)}, body: ce()})
	close(blocked)
	sending.Wait()
}
