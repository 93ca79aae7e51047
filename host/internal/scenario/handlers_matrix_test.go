package scenario

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/thole-dev/thole/host/with/changes/handled"
)

// TestSoakHandlers runs testdata/matrix/handlers.txtar with the host killed after each of its
// writes, and with each reply lost or refused. The API server's history must show that no
// handler was called whose success the annotation had already, and that none is missing.
// Without SOAK it does so for some writes.
func TestSoakHandlers(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	step, faults := 10, []string{"kill", "lost", "status=409"}
	if os.Getenv("SOAK") != "" {
		step, faults = 1, append(faults, "status=500", "status=429 retry-after=1s", "half", "cut")
	}
	const writes = 28 // about as many as the script has without faults
	for _, fault := range faults {
		for k := 0; k < writes; k += step {
			t.Run(fmt.Sprintf("write %d %s", k+1, fault), func(t *testing.T) {
				auditHandlers(t, fmt.Sprintf("write configmaps,traces/* %s after=%d times=1", fault, k))
			})
		}
	}
}

func auditHandlers(t *testing.T, rules string) {
	p := suite.Params("")
	p.Files = []string{filepath.Join("testdata", "matrix", "handlers.txtar")}
	a := &audit{rules: rules}
	for name, c := range map[string]command{
		"record": {run: a.record},
		"audit":  {run: a.check},
	} {
		p.Cmds[name] = c.command(name)
	}
	testscript.Run(t, p)
}

// audit has the history of the objects of a script.
type audit struct {
	rules string

	mu     sync.Mutex
	events []watch.Event
}

// record begins the history and the faults.
func (a *audit) record(s *script, _ []string) error {
	for _, gvr := range []schema.GroupVersionResource{
		{Version: "v1", Resource: "configmaps"}, {Group: "scenario.thole.dev", Version: "v1", Resource: "traces"},
	} {
		w, err := s.api.objects.Resource(gvr).Namespace(s.namespace).Watch(s.tb.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		s.tb.Cleanup(w.Stop)
		go a.follow(w)
	}
	return s.proxy.AddRules(a.rules)
}

func (a *audit) follow(w watch.Interface) {
	for e := range w.ResultChan() {
		a.mu.Lock()
		a.events = append(a.events, e)
		a.mu.Unlock()
	}
}

// check waits until the history has a call of each handler, and looks for calls that should not
// have been.
func (a *audit) check(s *script, _ []string) error {
	return s.await(wait{}, func() error {
		a.mu.Lock()
		events := slices.Clone(a.events)
		a.mu.Unlock()
		slices.SortStableFunc(events, func(x, y watch.Event) int { return cmp.Compare(version(x), version(y)) })
		h := history{done: map[string]bool{}, called: map[string]int{}}
		for _, e := range events {
			h.observe(e.Object.(*unstructured.Unstructured))
		}
		return h.verdict()
	})
}

// version is the resourceVersion, by which objects of all kinds are ordered in this API server.
func version(e watch.Event) int {
	o, _ := e.Object.(*unstructured.Unstructured)
	n, _ := strconv.Atoi(o.GetResourceVersion())
	return n
}

// history is what has happened to one object.
type history struct {
	content string          // of the object
	done    map[string]bool // the handlers whose success for the content is in the annotation
	all     bool            // those of everything but the deletion are
	called  map[string]int  // successful calls by handler
	wrong   []string
}

func (h *history) observe(o *unstructured.Unstructured) {
	handler := o.GetLabels()["handler"]
	switch {
	case o.GetKind() == "Trace":
		h.observePrimary(o)
	case handler == "" || handler == "resume":
	default:
		if h.done[handler] || h.all && !strings.HasPrefix(handler, "delete") {
			h.wrong = append(h.wrong, o.GetName())
		}
		if o.GetLabels()["outcome"] == "ok" {
			h.called[handler]++
		}
	}
}

// observePrimary notes what the annotation of the object has.
func (h *history) observePrimary(o *unstructured.Unstructured) {
	text, _ := json.Marshal(o.Object["spec"])
	if h.content != string(text) {
		h.content, h.all = string(text), false
		clear(h.done)
	}
	state, _ := handled.Parse(o.GetAnnotations()[handled.Annotation("tracer", "trace")], string(o.GetUID()))
	var old struct{ Spec json.RawMessage }
	var progress struct {
		Handlers map[string]struct {
			Done bool `json:"e"`
		} `json:"h"`
	}
	if json.Unmarshal(state.Object, &old) == nil && string(old.Spec) == h.content {
		h.all = true
	}
	if json.Unmarshal(state.Progress, &progress) == nil {
		for name, p := range progress.Handlers {
			h.done[name] = h.done[name] || p.Done
		}
	}
}

func (h *history) verdict() error {
	if h.wrong != nil {
		return permanentError{fmt.Errorf("calls whose success was known: %q; the successful ones were %v", h.wrong, h.called)}
	}
	for handler, least := range map[string]int{
		"create1": 1, "create2": 1, "update1": 1, "update2": 1, "field": 2, "delete1": 1, "delete2": 1,
	} {
		if h.called[handler] < least {
			return fmt.Errorf("too few calls of %s: %v", handler, h.called)
		}
	}
	if !h.all {
		return errors.New("the annotation has not shown that the object was handled")
	}
	return nil
}
