package runner

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/cache/scope"
	"github.com/thole-dev/thole/host/catalog"
)

var sampleKind = abi.Kind{APIVersion: "poll.dev/v1", Kind: "Sample"}

// samplesCache returns a cache of an API server whose kind Sample can be listed alone.
func samplesCache(t *testing.T, handle http.HandlerFunc) *cache.Cache {
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	c, err := cache.New(cache.Config{REST: &rest.Config{Host: server.URL}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	return c
}

func serveSamples(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if strings.HasSuffix(r.URL.Path, "/samples") {
		fmt.Fprint(w, `{"kind":"SampleList","apiVersion":"poll.dev/v1","metadata":{},"items":[]}`)
		return
	}
	fmt.Fprint(w, `{"kind":"APIResourceList","groupVersion":"poll.dev/v1","resources":[{"name":"samples","kind":"Sample","namespaced":true,"verbs":["list"]}]}`)
}

func followsOf(t *testing.T, m *abi.Manifest) *scope.Plugin {
	t.Helper()
	follows, err := scope.OfManifest(m, nil)
	if err != nil {
		t.Fatal(err)
	}
	return follows
}

func readsSamplesEvery(ms int64) *abi.Manifest {
	return &abi.Manifest{Name: "p", Controllers: []abi.Controller{{
		Name: "c", For: abi.Followed{Kind: sampleKind, PollInterval: 3_600_000}, Reads: []abi.Followed{{Kind: sampleKind, PollInterval: ms}},
	}}}
}

func TestTheShortestPollIntervalOfThePluginsReachesTheInformer(t *testing.T) {
	c := samplesCache(t, serveSamples)
	acquire := func(ms int64) *informers {
		t.Helper()
		byKind, err := acquireInformers(t.Context(), c, followsOf(t, readsSamplesEvery(ms)), &informers{}, func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		i := &informers{}
		i.replace(byKind)
		return i
	}
	expect := func(want time.Duration) {
		t.Helper()
		if f := c.Following(); len(f) != 1 || f[0].Interval != want {
			t.Errorf("%+v, want an interval of %s", f, want)
		}
	}
	first := acquire(300_000)
	expect(5 * time.Minute)
	second := acquire(60_000)
	expect(time.Minute)
	third := acquire(0)
	expect(cache.DefaultPollInterval)
	third.replace(nil)
	second.replace(nil)
	expect(5 * time.Minute)
	second = acquire(10)
	expect(cache.MinPollInterval)
	second.replace(nil)
	first.replace(nil)
}

func TestAPluginIsRefusedThatAsksForWhatAnAPIWithoutPatchCannotDo(t *testing.T) {
	c, m := samplesCache(t, serveSamples), readsSamplesEvery(0)
	byKind, err := acquireInformers(t.Context(), c, followsOf(t, m), &informers{}, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	if err := checkVerbs(m, nil, byKind); err != nil {
		t.Errorf("without a finalizer: %v", err)
	}
	m.Controllers[0].Finalizer = true
	var refused kindError
	if err := checkVerbs(m, nil, byKind); !errors.As(err, &refused) || !strings.Contains(err.Error(), `controller "c": Cleanup cannot be used with poll.dev/v1 Sample`) {
		t.Errorf("got %v", err)
	}
}

func TestAnAggregatedAPIThatIsAwayIsNamed(t *testing.T) {
	c := samplesCache(t, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "service unavailable", http.StatusServiceUnavailable)
	})
	_, err := acquireInformers(t.Context(), c, followsOf(t, readsSamplesEvery(0)), &informers{}, func(string) {})
	var waits *catalog.WaitError
	if !errors.As(err, &waits) || !strings.Contains(waits.Reason, "look up poll.dev/v1 Sample: ") || !strings.Contains(waits.Reason, "check that its APIService is available") {
		t.Errorf("got %v", err)
	}
}
