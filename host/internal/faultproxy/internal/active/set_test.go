package active

import (
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thole-dev/thole/host/internal/faultproxy/internal/request"
	"github.com/thole-dev/thole/host/internal/faultproxy/internal/rule"
)

var (
	get       = request.Attributes{Verb: "get", Resource: "pods"}
	watch     = request.Attributes{Verb: "watch", Resource: "pods"}
	watchList = request.Attributes{Verb: "watch", Resource: "pods", WatchList: true}
	list      = request.Attributes{Verb: "list", Resource: "pods"}
)

func parse(t *testing.T, text string) []rule.Rule {
	t.Helper()
	rules, err := rule.ParseAll(text)
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

// begin returns what applies to a request that arrives now, and its exchange.
func begin(s *Set, a request.Attributes) (string, *Exchange) {
	e := s.Begin(a, func(string) {})
	return now(e), e
}

// now returns what applies to a request: the fault and the delay.
func now(e *Exchange) string {
	state, text := e.State(), ""
	if state.Fault != nil {
		text = string(state.Fault.Rule.Fault)
	}
	if state.Delay > 0 {
		text += " " + state.Delay.String()
	}
	return text
}

func expect(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func TestRulesApplyInTheirOrder(t *testing.T) {
	for name, c := range map[string]struct {
		rules string
		want  []string // of one request after another
	}{
		"first":             {"get pods lost\nget pods cut", []string{"lost", "lost"}},
		"used up":           {"get pods lost times=1\nget pods cut times=2", []string{"lost", "cut", "cut", ""}},
		"after":             {"get pods lost after=2 times=1", []string{"", "", "lost", ""}},
		"all count":         {"get pods lost times=1\nget pods cut after=2", []string{"lost", "", "cut"}},
		"delays add up":     {"get pods delay=1s\nget pods lost times=1\nget pods delay=2s after=1", []string{"lost 1s", " 3s", " 3s"}},
		"others":            {"list pods lost\nget secrets lost", []string{""}},
		"cut is not before": {"get pods hang\nget pods cut", []string{"hang"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewSet()
			s.Replace(parse(t, c.rules), "")
			for i, want := range c.want {
				got, _ := begin(s, get)
				if got != want {
					t.Errorf("request %d: %q, want %q", i+1, got, want)
				}
			}
		})
	}
}

func TestOpenWatchMeetsANewRule(t *testing.T) {
	for name, c := range map[string]struct{ before, added, want string }{
		"cut":                   {"", "watch pods cut", "cut"},
		"freeze":                {"", "watch pods freeze", "freeze"},
		"bookmarks-only":        {"", "watch pods bookmarks-only", "bookmarks-only"},
		"no-bookmarks":          {"", "watch pods no-bookmarks", "no-bookmarks"},
		"gone":                  {"", "watch pods gone", "gone"},
		"delay":                 {"", "watch pods delay=1s", " 1s"},
		"another":               {"", "watch secrets cut", ""},
		"not of open watches":   {"", "watch pods status=500\nwatch pods hang\nwatch pods lost\nwatch pods kill", ""},
		"first rule wins":       {"watch pods freeze", "watch pods gone", "freeze"},
		"cut wins always":       {"watch pods freeze", "watch pods cut", "cut"},
		"a hanging one is cut":  {"watch pods hang", "watch pods cut", "cut"},
		"delay beside a freeze": {"watch pods freeze", "watch pods delay=1s", "freeze 1s"},
		"it counts":             {"", "watch pods gone after=1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewSet()
			s.Replace(parse(t, c.before), "")
			_, open := begin(s, watch)
			_, done := begin(s, watch)
			done.End()
			changed := open.State().Changed
			s.Add(parse(t, c.added), "")
			expect(t, "open watch", now(open), c.want)
			if uses := s.Uses(); uses[len(uses)-1].Matched > 1 {
				t.Errorf("a watch that had ended was counted: %+v", uses)
			}
			select {
			case <-changed:
			default:
				t.Error("the watch was not told of the change")
			}
		})
	}
}

func TestOneOpenWatchIsHitOnce(t *testing.T) {
	s := NewSet()
	_, first := begin(s, watch)
	_, second := begin(s, watch)
	s.Add(parse(t, "watch pods gone times=1"), "")
	expect(t, "first", now(first), "gone")
	expect(t, "second", now(second), "")
	again, _ := begin(s, watch)
	expect(t, "third", again, "")
}

// What a rule holds back must not slip out while the rules are replaced.
func TestReplacedRulesApplyNoMoreAndNewOnesAtOnce(t *testing.T) {
	s := NewSet()
	s.Replace(parse(t, "watch pods freeze\nwatch pods delay=1s"), "")
	_, e := begin(s, watch)
	s.Replace(parse(t, "watch pods freeze"), "")
	expect(t, "replaced", now(e), "freeze")
	s.Replace(nil, "")
	expect(t, "removed", now(e), "")
}

func TestRuleEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSet()
		s.Replace(parse(t, "watch pods freeze for=30s"), "")
		_, e := begin(s, watch)
		changed := e.State().Changed
		time.Sleep(30*time.Second - time.Nanosecond) // fake time
		expect(t, "before", now(e), "freeze")
		<-changed
		expect(t, "after", now(e), "")
		got, _ := begin(s, watch)
		expect(t, "a new watch", got, "")
		if uses := s.Uses(); !reflect.DeepEqual(uses, []Use{{"watch pods freeze for=30s", 1, 1, true}}) {
			t.Errorf("%+v", uses)
		}
	})
}

// A timer of a rule that was replaced must not wake anybody, nor keep the rule.
func TestReplacedRuleHasNoTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSet()
		s.Replace(parse(t, "watch pods freeze for=30s"), "")
		s.Replace(nil, "")
		_, e := begin(s, watch)
		changed := e.State().Changed
		time.Sleep(time.Minute) // fake time
		select {
		case <-changed:
			t.Error("the rule ended again")
		default:
		}
	})
}

func TestRefusedWatchListIsNoUseOfAStaleRule(t *testing.T) {
	s := NewSet()
	s.Replace(parse(t, "list pods stale times=1"), "42")
	for i, step := range []struct {
		a    request.Attributes
		want string
	}{{watchList, "stale"}, {watch, ""}, {watchList, "stale"}, {list, "stale"}, {list, ""}, {watchList, ""}} {
		got, e := begin(s, step.a)
		if got != step.want {
			t.Errorf("request %d: %q, want %q", i, got, step.want)
		}
		if fault := e.State().Fault; fault != nil && fault.Version != "42" {
			t.Errorf("resourceVersion %q", fault.Version)
		}
	}
	if uses := s.Uses(); uses[0].Matched != 2 || uses[0].Applied != 1 {
		t.Errorf("%+v", uses)
	}
}

func TestCountsAreExactUnderConcurrency(t *testing.T) {
	s := NewSet()
	s.Replace(parse(t, "get pods lost after=50 times=100"), "")
	var group sync.WaitGroup
	var mu sync.Mutex
	lost := 0
	for range 300 {
		group.Go(func() {
			if got, e := begin(s, get); got == "lost" {
				mu.Lock()
				lost++
				mu.Unlock()
				e.End()
			}
		})
	}
	group.Wait()
	if uses := s.Uses()[0]; lost != 100 || uses.Matched != 300 || uses.Applied != 100 {
		t.Errorf("%d lost, %+v", lost, uses)
	}
}
