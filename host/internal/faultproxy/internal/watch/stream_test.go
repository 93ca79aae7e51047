package watch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thole-dev/thole/host/internal/faultproxy/internal/active"
	"github.com/thole-dev/thole/host/internal/faultproxy/internal/request"
	"github.com/thole-dev/thole/host/internal/faultproxy/internal/rule"
)

// script is a watch between a server and a client, in fake time.
type script struct {
	t      *testing.T
	rules  *active.Set
	server *io.PipeWriter
	cancel context.CancelFunc // by the client
	start  time.Time

	mu       sync.Mutex
	received []string // since the last expect: each with the second in which it came
}

// play runs a script for a watch of JSON from resourceVersion 5.
func play(t *testing.T, steps func(*script)) {
	t.Helper()
	playAs(t, "application/json", "5", steps)
}

func playAs(t *testing.T, contentType, version string, steps func(*script)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		reader, writer := io.Pipe()
		s := &script{t: t, rules: active.NewSet(), server: writer, cancel: cancel, start: time.Now()}
		e := s.rules.Begin(request.Attributes{Verb: "watch", Resource: "pods"}, func(string) {})
		reply := &http.Response{Body: reader, Header: http.Header{"Content-Type": {contentType}}}
		stream := NewStream(ctx, reply, version, e.State)
		go s.receive(stream)
		steps(s)
		cancel()
		synctest.Wait()
		stream.Close()
		synctest.Wait()
	})
}

// receive notes what the client gets: the events in short, and the end.
func (s *script) receive(stream *Stream) {
	buffer := make([]byte, 1<<10)
	for {
		n, err := stream.Read(buffer)
		what := short(buffer[:n])
		if err != nil {
			what = err.Error()
		}
		s.mu.Lock()
		s.received = append(s.received, fmt.Sprintf("%.1f %s", time.Since(s.start).Seconds(), what))
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// short is an event as its type and its resourceVersion or code.
func short(text []byte) string {
	var e struct {
		Type   string
		Object struct {
			Metadata struct{ ResourceVersion string }
			Code     int
			Reason   string
		}
	}
	if json.Unmarshal(text, &e) != nil || text[len(text)-1] != '\n' {
		return string(text)
	}
	return strings.TrimSpace(e.Type + " " + e.Object.Metadata.ResourceVersion + e.Object.Reason)
}

const (
	event5     = `{"type":"MODIFIED","object":{"metadata":{"name":"x","resourceVersion":"%d"}}}`
	bookmark5  = `{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"%d","creationTimestamp":null}}}`
	initialEnd = `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"%d","annotations":{"k8s.io/initial-events-end":"true"}}}}`
)

func (s *script) event(version int)    { s.send(fmt.Sprintf(event5+"\n", version)) }
func (s *script) bookmark(version int) { s.send(fmt.Sprintf(bookmark5+"\n", version)) }

func (s *script) send(text string) {
	s.t.Helper()
	synctest.Wait()
	if _, err := io.WriteString(s.server, text); err != nil {
		s.t.Error(err)
	}
}

func (s *script) set(rules string) {
	s.t.Helper()
	parsed, err := rule.ParseAll(rules)
	if err != nil {
		s.t.Fatal(err)
	}
	synctest.Wait()
	s.rules.Replace(parsed, "")
}

func (s *script) sleep(d time.Duration) { time.Sleep(d) } // fake time

// expect compares what has arrived since the last call.
func (s *script) expect(want ...string) {
	s.t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.received, want) {
		s.t.Errorf("received %q, want %q", s.received, want)
	}
	s.received = nil
}

func TestWatchPassesUnchangedWithoutRules(t *testing.T) {
	play(t, func(s *script) {
		s.event(6)
		s.bookmark(7)
		s.expect("0.0 MODIFIED 6", "0.0 BOOKMARK 7")
		s.server.Close()
		s.expect("0.0 EOF")
	})
}

func TestFailureOfTheServerReachesTheClient(t *testing.T) {
	play(t, func(s *script) {
		s.event(6)
		s.server.CloseWithError(errors.New("reset"))
		s.expect("0.0 MODIFIED 6", "0.0 reset")
	})
}

func TestDelayedEventsArriveInOrderAndOneByOne(t *testing.T) {
	play(t, func(s *script) {
		s.set("watch pods delay=2s\nwatch pods delay=1s")
		s.event(6)
		s.sleep(time.Second)
		s.event(7)
		s.server.Close()
		s.sleep(1900 * time.Millisecond)
		s.expect()
		s.sleep(time.Hour)
		s.expect("3.0 MODIFIED 6", "4.0 MODIFIED 7", "4.0 EOF")
	})
}

func TestDelayedEventsArriveWhenTheRuleIsRemoved(t *testing.T) {
	play(t, func(s *script) {
		s.set("watch pods delay=1h")
		s.event(6)
		s.sleep(time.Second)
		s.expect()
		s.set("")
		s.expect("1.0 MODIFIED 6")
	})
}

// A delay that is shortened must not let an event overtake another.
func TestShorterDelayKeepsTheOrder(t *testing.T) {
	play(t, func(s *script) {
		s.set("watch pods delay=10s")
		s.event(6)
		s.sleep(time.Second)
		s.event(7)
		s.set("watch pods delay=2s")
		s.sleep(time.Hour)
		s.expect("2.0 MODIFIED 6", "3.0 MODIFIED 7")
	})
}

func TestFrozenWatchIsSilentUntilTheRuleIsRemoved(t *testing.T) {
	play(t, func(s *script) {
		s.event(6)
		s.set("watch pods freeze")
		s.event(7)
		s.bookmark(8)
		s.server.Close()
		s.sleep(time.Hour)
		s.expect("0.0 MODIFIED 6")
		s.set("watch pods freeze")
		s.expect()
		s.set("")
		s.expect("3600.0 MODIFIED 7", "3600.0 BOOKMARK 8", "3600.0 EOF")
	})
}

func TestClientCanLeaveAFrozenWatch(t *testing.T) {
	play(t, func(s *script) {
		s.set("watch pods freeze")
		s.event(6)
		s.expect()
		s.cancel()
		s.expect("0.0 context canceled")
	})
}

func TestBookmarksOnlyAreThoseOfACacheThatStandsStill(t *testing.T) {
	play(t, func(s *script) {
		s.set("watch pods bookmarks-only")
		s.bookmark(6)
		s.event(7)
		s.bookmark(8)
		s.expect("0.0 BOOKMARK 5", "0.0 BOOKMARK 5")
		s.set("")
		s.expect("0.0 MODIFIED 7")
		s.event(9)
		s.set("watch pods bookmarks-only")
		s.event(10)
		s.bookmark(11)
		s.bookmark(12)
		s.expect("0.0 MODIFIED 9", "0.0 BOOKMARK 9", "0.0 BOOKMARK 9")
		s.event(13)
		s.set("")
		s.expect("0.0 MODIFIED 10", "0.0 MODIFIED 13")
	})
}

func TestBookmarksOnlyLetTheWatchEnd(t *testing.T) {
	play(t, func(s *script) {
		s.set("watch pods bookmarks-only")
		s.event(6)
		s.server.Close()
		s.expect("0.0 EOF")
	})
}

// A client that has seen nothing has no version that a bookmark could repeat, and
// must not take the empty list for complete.
func TestBookmarksOnlyHoldsBackTheInitialEvents(t *testing.T) {
	for _, version := range []string{"", "0"} {
		playAs(t, "application/json", version, func(s *script) {
			s.set("watch pods bookmarks-only")
			s.bookmark(5)
			s.event(6)
			s.send(fmt.Sprintf(initialEnd, 7))
			s.expect()
			s.set("")
			s.expect("0.0 BOOKMARK 5", "0.0 MODIFIED 6", "0.0 BOOKMARK 7")
		})
	}
}

func TestRewrittenBookmarkKeepsTheRest(t *testing.T) {
	f := frame{bytes: []byte(fmt.Sprintf(bookmark5, 8))}
	got, err := f.withVersion("5")
	want := `{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"creationTimestamp":null,"resourceVersion":"5"}}}` + "\n"
	if err != nil || string(got.bytes) != want {
		t.Errorf("%s, %v", got.bytes, err)
	}
}

func TestNoBookmarksDropsAllButTheEndOfTheInitialEvents(t *testing.T) {
	play(t, func(s *script) {
		s.set("watch pods no-bookmarks")
		s.bookmark(6)
		s.send(fmt.Sprintf(initialEnd, 7))
		s.bookmark(8)
		s.event(9)
		s.expect("0.0 BOOKMARK 7", "0.0 MODIFIED 9")
		s.set("")
		s.bookmark(10)
		s.expect("0.0 BOOKMARK 10")
	})
}

func TestGoneEndsTheWatchByAnExpiredError(t *testing.T) {
	play(t, func(s *script) {
		s.event(6)
		s.set("watch pods gone")
		s.expect("0.0 MODIFIED 6", "0.0 ERROR Expired", "0.0 EOF")
	})
}

func TestCutWatchEndsByItsError(t *testing.T) {
	play(t, func(s *script) {
		s.event(6)
		s.set("watch pods cut")
		s.expect("0.0 MODIFIED 6", "0.0 "+ErrCut.Error())
	})
}

func TestEventsOfAnotherEncodingAreBytes(t *testing.T) {
	playAs(t, "application/vnd.kubernetes.protobuf;stream=watch", "5", func(s *script) {
		s.set("watch pods gone\nwatch pods delay=1s")
		s.send("\x00\x01")
		s.sleep(time.Second)
		s.expect("1.0 \x00\x01")
		s.set("watch pods freeze")
		s.send("\x02")
		s.expect()
		s.set("watch pods no-bookmarks")
		s.expect("1.0 \x02")
		s.set("watch pods cut")
		s.expect("1.0 " + ErrCut.Error())
	})
}

func TestFrameLargerThanTheBufferIsNotLost(t *testing.T) {
	text := strings.Repeat("x", 100)
	reply := &http.Response{Body: io.NopCloser(strings.NewReader(`"` + text + `"`)), Header: http.Header{"Content-Type": {"application/json; charset=utf-8"}}}
	e := active.NewSet().Begin(request.Attributes{}, func(string) {})
	stream := NewStream(t.Context(), reply, "", e.State)
	defer stream.Close()
	var got strings.Builder
	if _, err := io.CopyBuffer(&got, struct{ io.Reader }{stream}, make([]byte, 7)); err != nil || got.String() != `"`+text+"\"\n" {
		t.Errorf("%q, %v", got.String(), err)
	}
}
