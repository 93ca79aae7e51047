package runner

import (
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/sandbox"
)

// answering is a capability that calls the guests of revisions that may not run.
type answering struct {
	caller    atomic.Pointer[Caller]
	starting  atomic.Pointer[Starting]
	discarded []*Revision
}

func (a *answering) capability() Capability {
	return Capability{
		Starting: func(s *Starting) {
			caller := s.Caller(s.Manifest.Controllers[0])
			a.caller.Store(&caller)
			a.starting.Store(s)
		},
		Discarded: func(rev *Revision) { a.discarded = append(a.discarded, rev) },
	}
}

func newRevision(number int) *Revision {
	rev := &Revision{
		Revision: events.Revision{Plugin: "p", Number: number, Digest: "d"}, Guest: &sandbox.Guest{},
		Manifest: &abi.Manifest{Name: "p", Controllers: []abi.Controller{{Name: "c", For: widgets.All()}}},
	}
	rev.Policy.Limits.Concurrency = 1
	return rev
}

// The API server may need an answer of the guest to list the objects of a kind.
func TestAGuestIsCalledBeforeItsFirstListIsAnswered(t *testing.T) {
	a := &answering{}
	asked := make(chan struct{}, 1)
	url := startServer(t, func(_ http.ResponseWriter, request *http.Request) bool {
		if request.URL.Path != "/apis/test.dev/v1/widgets" || request.URL.Query().Has("watch") {
			return false
		}
		for a.starting.Load() == nil {
			select {
			case <-request.Context().Done():
				return true
			case <-time.After(time.Millisecond):
			}
		}
		if s := a.starting.Load(); !s.Leads() || s.Resources[widgets].GVR.Resource != "widgets" || (*a.caller.Load()).Revision().Number != 1 {
			t.Errorf("the capability is given %+v", s)
		}
		select {
		case asked <- struct{}{}:
		default:
		}
		return false
	})
	r := newRunner(t, url, "")
	r.Capabilities = []Capability{{}, a.capability()}
	rev := newRevision(1)
	if err := r.Start(t.Context(), rev, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	select {
	case <-asked:
	default:
		t.Error("no list was answered before the plugin ran")
	}
	first := *a.caller.Load()
	r.announce(rev, nil, nil)
	if *a.caller.Load() != first {
		t.Error("another attempt to start the revision has another caller")
	}
	r.Stop("p", false)
	if !r.Statuses()["p"].Answers {
		t.Error("a revision that is kept to be started again is not called meanwhile")
	}
	r.Discard(newRevision(1)) // of another guest
	if a.discarded != nil || !r.Statuses()["p"].Answers {
		t.Error("another revision was discarded, and this one is not called")
	}
	next := newRevision(2)
	r.announce(next, nil, nil)
	if *a.caller.Load() == first || (*a.caller.Load()).Revision().Number != 2 {
		t.Error("the next revision has the caller of the one before")
	}
	r.Discard(rev)
	r.Discard(next)
	if _, known := r.Statuses()["p"]; !slices.Equal(a.discarded, []*Revision{next}) || known {
		t.Errorf("discarded: %v, and it is known: %t", a.discarded, known)
	}
}

func TestAPluginThatNobodyCallsBeforeItRunsIsAwaited(t *testing.T) {
	r := newRunner(t, "http://127.0.0.1:1", "")
	r.Capabilities = []Capability{{Starting: func(*Starting) {}}}
	r.announce(newRevision(1), nil, nil)
	if _, known := r.Statuses()["p"]; known {
		t.Error("it has a status before it runs")
	}
}
