package page

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/net/html"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/runner"
)

// shown is a page about what its fields have.
type shown struct {
	*testing.T
	page    *page
	plugins []runner.PluginStatus
	numbers map[string]Numbers
	runs    map[string][]dispatch.LastRun
	err     error // of the metrics
	asked   int
}

func newShown(t *testing.T) *shown {
	s := &shown{T: t, numbers: map[string]Numbers{}, runs: map[string][]dispatch.LastRun{}}
	s.page = newPage(runner.Environment{Version: "v1", Logger: hclog.NewNullLogger()})
	s.page.plugins = func() []runner.PluginStatus { s.asked++; return s.plugins }
	s.page.lastRuns = func() map[string][]dispatch.LastRun { return s.runs }
	s.page.numbers = func() (map[string]Numbers, error) { return s.numbers, s.err }
	return s
}

// add adds a plugin with one controller, c.
func (s *shown) add(name string, state catalog.State, numbers Numbers, runs ...dispatch.LastRun) {
	s.plugins = append(s.plugins, runner.PluginStatus{Status: catalog.Status{Name: name, State: state, Revision: 1}})
	s.numbers[name+"/c"], s.runs[name+"/c"] = numbers, runs
}

func lastRun(name string, duration time.Duration, failure *dispatch.LastFailure) dispatch.LastRun {
	return dispatch.LastRun{Object: object.Key{Namespace: "ns", Name: name}, Ended: time.Now(), Duration: duration, Reasons: 1, Failure: failure}
}

func (s *shown) get(path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.page.handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

// fresh is get, with a snapshot of now.
func (s *shown) fresh(path string) string {
	s.Helper()
	s.page.mu.Lock()
	s.page.current = nil
	s.page.mu.Unlock()
	w := s.get(path)
	if w.Code != http.StatusOK {
		s.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	return w.Body.String()
}

// rows returns the text of the rows of the table in an element.
func rows(t *testing.T, page, id string) (all []string) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	for part := range root.Descendants() {
		if !slices.Contains(part.Attr, html.Attribute{Key: "id", Val: id}) {
			continue
		}
		for n := range part.Descendants() {
			if n.Data == "tbody" {
				for row := range n.ChildNodes() {
					if row.Data == "tr" {
						all = append(all, text(row))
					}
				}
			}
		}
		return all
	}
	t.Fatalf("there is no %s in %s", id, page)
	return nil
}

// text returns the words in an element, cells separated by |.
func text(n *html.Node) string {
	var words []string
	for d := range n.Descendants() {
		switch {
		case d.Type == html.TextNode:
			words = append(words, strings.Fields(d.Data)...)
		case d.Data == "td":
			words = append(words, "|")
		}
	}
	return strings.Join(words, " ")
}

func TestOverviewHasPluginsAndTheObjectsToLookAt(t *testing.T) {
	s := newShown(t)
	failed := &dispatch.LastFailure{Class: abi.ClassPanic, Reason: "Panic", Attempt: 3}
	s.add("a", catalog.Running, Numbers{Queued: 4, Active: 1, Workers: 2, Runs: 10, Errors: 3, Seconds: 5},
		lastRun("good", 10*time.Millisecond, nil), lastRun("bad", time.Millisecond, failed),
		lastRun("late", time.Millisecond, &dispatch.LastFailure{Class: abi.ClassWaiting, Reason: "NotYet", Attempt: 9}))
	s.add("b", catalog.Failed, Numbers{Queued: 1})
	s.plugins[1].LastError = "no export <reconcile>"
	page := s.fresh("/ui")
	for id, want := range map[string][]string{
		"plugins": {"b | failed no export <reconcile> | 0 | 1 | 0 | – | – | 1 |", "a | running | 1 | 4 | 1 | – | – | 1 |"},
		"failing": {"ns/bad | panic Panic, 3 times | a | c | primary | 1ms | 0s ago", "ns/late | waiting NotYet, 9 times | a | c | primary | 1ms | 0s ago"},
		"slowest": {"ns/good | | a | c | primary | 10ms | 0s ago", "ns/bad | panic Panic, 3 times | a | c | primary | 1ms | 0s ago", "ns/late | waiting NotYet, 9 times | a | c | primary | 1ms | 0s ago"},
	} {
		if got := rows(t, page, id); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
	}
	if got := rows(t, s.fresh("/ui/plugins/a"), "controllers"); !slices.Equal(got, []string{"c | 1 | 3 | 4 | 1 of 2 | 10 | 3 | – | – | 500ms"}) {
		t.Errorf("%q", got)
	}
}

func TestObjectsOfAPluginAreFoundAndOrdered(t *testing.T) {
	s := newShown(t)
	s.add("a", catalog.Running, Numbers{})
	s.add("b", catalog.Running, Numbers{}, lastRun("of-b", 0, nil))
	for i := range 250 {
		r := lastRun(fmt.Sprintf("x-%03d", i), time.Duration(i)*time.Millisecond, nil)
		r.Ended = r.Ended.Add(-time.Duration(i) * time.Minute)
		if i == 70 {
			r.Failure = &dispatch.LastFailure{Class: abi.ClassRetry, Attempt: 1}
		}
		s.runs["a/c"] = append(s.runs["a/c"], r)
	}
	for path, want := range map[string]struct {
		rows  int
		first string
	}{
		"":                             {100, "ns/x-070"},
		"?order=name":                  {100, "ns/x-000"},
		"?order=slowest":               {100, "ns/x-249"},
		"?order=latest&page=1":         {100, "ns/x-100"},
		"?order=name&page=2":           {50, "ns/x-200"},
		"?order=name&page=99":          {50, "ns/x-200"},
		"?order=name&page=-1":          {100, "ns/x-000"},
		"?order=nothing&page=x":        {100, "ns/x-070"},
		"?object=x-24&order=slowest":   {10, "ns/x-249"},
		"?object=ns/x-123":             {1, "ns/x-123"},
		"?controller=c&object=x-000":   {1, "ns/x-000"},
		"?controller=d":                {0, ""},
		"?object=%3Cscript%3Ealert(1)": {0, ""},
		"?object=of-b":                 {0, ""},
	} {
		got := rows(t, s.fresh("/ui/plugins/a"+path), "objects")
		if len(got) != want.rows || len(got) > 0 && !strings.HasPrefix(got[0], want.first+" ") {
			t.Errorf("%s: %d objects, %q", path, len(got), got[:min(1, len(got))])
		}
	}
}

// Whatever a plugin can name is text.
func TestNothingOfAPluginIsMarkup(t *testing.T) {
	s := newShown(t)
	evil := `"><script>alert(1)</script><img src=x onerror=alert(1)>{{.}}`
	s.add("a", catalog.Degraded, Numbers{}, dispatch.LastRun{
		Object: object.Key{Name: evil}, Ended: time.Now(), Failure: &dispatch.LastFailure{Class: abi.Class(evil), Reason: evil},
	})
	s.plugins[0].Version, s.plugins[0].LastError, s.plugins[0].Leader, s.plugins[0].WaitsFor = evil, evil, evil, evil
	s.page.history.observe(events.PluginRefused{Plugin: "a", Step: "load", Err: errors.New(evil), Digest: evil})
	s.page.history.observe(events.PluginStarted{Revision: events.Revision{Plugin: evil, Version: evil, Digest: evil}})
	for _, path := range []string{"/ui", "/ui/plugins/a", "/ui/plugins/a?object=" + strings.NewReplacer(`"`, "%22", " ", "%20", "<", "%3C", ">", "%3E").Replace(evil)} {
		page := s.fresh(path)
		root, err := html.Parse(strings.NewReader(page))
		if err != nil {
			t.Fatal(err)
		}
		scripts := 0
		for n := range root.Descendants() {
			if n.Data == "script" && n.Type == html.ElementNode {
				scripts++
			}
			if n.Type == html.ElementNode && n.Data == "img" || slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return strings.HasPrefix(a.Key, "on") }) {
				t.Errorf("%s: %s %v", path, n.Data, n.Attr)
			}
		}
		if scripts != 1 || !strings.Contains(page, "&lt;script&gt;alert(1)") {
			t.Errorf("%s has %d scripts", path, scripts)
		}
	}
}

func TestPagesAreForNobodyElse(t *testing.T) {
	s := newShown(t)
	h := s.get("/ui").Header()
	for name, want := range map[string]string{
		"Content-Type": "text/html; charset=utf-8", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff",
	} {
		if got := h.Get(name); got != want {
			t.Errorf("%s is %q", name, got)
		}
	}
	for _, part := range []string{"default-src 'none'", "script-src 'sha256-", "frame-ancestors 'none'", "base-uri 'none'"} {
		if csp := h.Get("Content-Security-Policy"); !strings.Contains(csp, part) || strings.Contains(csp, "unsafe") {
			t.Errorf("the policy is %q", csp)
		}
	}
}

func TestPagesThatAreNotThere(t *testing.T) {
	s := newShown(t)
	s.page.history.observe(events.PluginStopped{Plugin: "gone", Removed: true})
	for path, want := range map[string]struct {
		status int
		text   string
	}{
		"/ui/plugins/none": {http.StatusNotFound, "there is no plugin of that name"},
		"/ui/plugins/gone": {http.StatusNotFound, "removed"},
		"/ui/other":        {http.StatusNotFound, ""},
		"/ui/plugins/a/b":  {http.StatusNotFound, ""},
	} {
		if w := s.get(path); w.Code != want.status || !strings.Contains(w.Body.String(), want.text) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if w := s.get("/ui/"); w.Code != http.StatusMovedPermanently || w.Header().Get("Location") != "../ui" {
		t.Errorf("/ui/: %d to %s", w.Code, w.Header().Get("Location"))
	}
	s.err = errors.New("the metrics are broken")
	if w := s.get("/ui"); w.Code != http.StatusOK { // of the snapshot that is valid
		t.Errorf("%d %s", w.Code, w.Body)
	}
	s.page.current = nil
	if w := s.get("/ui"); w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "broken") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestManyWhoLookCostAsMuchAsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShown(t)
		for range 50 {
			go s.get("/ui")
		}
		synctest.Wait()
		if s.asked != 1 {
			t.Errorf("collected %d times", s.asked)
		}
		time.Sleep(validity) // fake time
		synctest.Wait()
		if s.page.current != nil {
			t.Error("the snapshot is kept although nobody asks")
		}
		if s.get("/ui"); s.asked != 2 {
			t.Errorf("collected %d times after %s", s.asked, validity)
		}
	})
}

// A plugin that is refused for its name has a page, too.
func TestLinksLeadToThePluginWhateverItsName(t *testing.T) {
	if got := linkTo("a/b?c#d e"); got != "ui/plugins/a%2Fb%3Fc%23d%20e" {
		t.Error(got)
	}
}
