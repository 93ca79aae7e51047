package effect

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/host/object"
)

// A connection would keep the fake time from passing.
type unconnected func(*http.Request) *http.Response

func (reply unconnected) RoundTrip(r *http.Request) (*http.Response, error) { return reply(r), nil }

func TestReadsOfGuestsFromTheServerAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &rest.Config{Host: "http://localhost", Transport: unconnected(func(r *http.Request) *http.Response {
			return &http.Response{
				StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
				Body: io.NopCloser(strings.NewReader(primary)), Request: r,
			}
		})})
		began, key := time.Now(), object.Key{Namespace: "default", Name: "w"}
		for range liveReadsBurst + 5*liveReadsPerSecond {
			if o, err := w.Live(t.Context(), widget.Kind, key); err != nil || o.Key() != key {
				t.Fatal(o, err)
			}
		}
		if took := time.Since(began).Round(100 * time.Millisecond); took != 5*time.Second {
			t.Errorf("they took %s", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := w.Live(ctx, widget.Kind, key); err == nil || !strings.Contains(err.Error(), "limit of reads") {
			t.Errorf("a read that cannot be in time: %v", err)
		}
	})
}
