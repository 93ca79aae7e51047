package functionindexes

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/functionindexes"
	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/runner"
	"github.com/thole-dev/thole/host/sandbox"
	"github.com/thole-dev/thole/host/telemetry"
	"github.com/thole-dev/thole/host/with"
)

var configMap = abi.Kind{APIVersion: "v1", Kind: "ConfigMap"}

// host has the capability with one plugin, the guests of which are those of the conformance kit: "index" gives the key
// hello to each ConfigMap.
type host struct {
	*world
	sandbox *sandbox.Sandbox
	metrics *telemetry.Metrics
	part    runner.PluginPart
	hooks   dispatch.Hooks
	maps    *cache.Derived
	events  []string // on objects
	log     []string // of warnings
	asked   string   // the namespace of the last list
}

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{world: newWorld(t), metrics: telemetry.NewMetrics()}
	declared := Capability()
	var err error
	if h.sandbox, err = sandbox.New(t.Context(), sandbox.Config{Capabilities: with.List{declared}.Modules()}); err != nil {
		t.Fatal(err)
	}
	if h.maps, err = h.cache.Derive(configMap, true); err != nil {
		t.Fatal(err)
	}
	h.maps.Complete()
	h.part = declared.New(runner.Environment{Metrics: h.metrics, Logger: hclog.NewNullLogger()}).Plugin("p")
	h.hooks = h.part.Controller(nil).Hooks
	t.Cleanup(func() {
		h.part.Stop()
		if err := h.sandbox.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return h
}

// configMap puts a ConfigMap, in another version each time.
func (h *host) configMap(name, version string) {
	h.t.Helper()
	o, err := object.Parse(fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"a","name":%q,"uid":%q,"resourceVersion":%q}}`, name, name, version), configMap)
	if err != nil {
		h.t.Fatal(err)
	}
	h.maps.Put(o)
}

// Event notes an Event on an object.
func (h *host) Event(about runtime.Object, eventType, reason, _ string) {
	h.note(func() {
		h.events = append(h.events, about.(*object.Object).Name+" "+eventType+" "+reason)
	})
}

// use makes a guest of the kit run, with what its manifest has.
func (h *host) use(name string) *dispatch.Revision {
	h.t.Helper()
	c, _ := tck.CaseOf(name)
	guest, err := h.sandbox.Load(h.t.Context(), sandbox.Plugin{Name: name, Wasm: c.Wasm()})
	if err != nil {
		h.t.Fatal(err)
	}
	return h.start(guest, guest.Manifest())
}

func (h *host) start(guest *sandbox.Guest, m *abi.Manifest) *dispatch.Revision {
	h.t.Helper()
	use, err := h.part.Prepare(h.t.Context(), &runner.Revision{Revision: events.Revision{Plugin: "p"}, Guest: guest, Manifest: m})
	if err != nil {
		h.t.Fatal(err)
	}
	use(runner.Running{
		Logger:    func(l hclog.Logger) hclog.Logger { return l },
		Informers: map[abi.Kind]*cache.Informer{configMap: h.maps.Informer()},
		Recorder:  h,
	})
	return &dispatch.Revision{Controller: m.Controllers[0]}
}

// get calls the import in a run of a revision, which may read everything.
func (h *host) get(rev *dispatch.Revision, message []byte, most int) (reply *contract.Reply, code int64) {
	h.t.Helper()
	h.log, h.asked = nil, ""
	text, code := h.hooks.Imports[contract.Import](h.t.Context(), &dispatch.ImportCall{
		ReadCall: sandbox.ReadCall{Message: message, MaxReply: most}, Revision: rev,
		ListDerived: func(_ context.Context, namespace string, wanted cache.Reading) (cache.List, int64) {
			h.asked = namespace
			reads := h.cache.BeginUnrecorded(cache.Owner{Controller: "p/c"}, &cache.OwnWrites{}, h.cache.Derived)
			defer reads.Close()
			found, err := reads.List(wanted)
			if err != nil {
				return found, abi.CodeUnavailable
			}
			return found, 0
		},
		Warn: func(message string, args ...any) { h.log = append(h.log, message+fmt.Sprint(args...)) },
	})
	if code < 0 {
		return nil, code
	}
	reply, err := contract.DecodeReply(text)
	if err != nil {
		h.t.Fatal(err)
	}
	return reply, code
}

func keyOf(index, key string) []byte {
	return contract.EncodeCall(&contract.Call{Index: index, Key: key, Namespace: "a"})
}

// hasKey expects that a revision finds these objects by the key hello.
func (h *host) hasKey(rev *dispatch.Revision, want ...string) {
	h.t.Helper()
	that(h.t, func() error {
		reply, code := h.get(rev, keyOf("keys", "hello"), 1000)
		if code != 0 {
			return fmt.Errorf("code %d", code)
		}
		var got []string
		for _, item := range reply.Items {
			got = append(got, item.Namespace+"/"+item.Name+"="+string(item.Value))
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("got %q, want %q", got, want)
		}
		return nil
	})
}

func TestObjectsAreFoundByTheImport(t *testing.T) {
	h := newHost(t)
	h.configMap("one", "1")
	h.configMap("two", "1")
	rev := h.use("index")
	h.hasKey(rev, `a/one={"length":5}`, `a/two={"length":5}`)
	if h.asked != "a" {
		t.Errorf("listed in %q", h.asked)
	}
	if reply, code := h.get(rev, keyOf("keys", "without a value"), 1000); code != 0 || len(reply.Items) != 2 || reply.Items[0].Value != nil {
		t.Errorf("without a value: %+v, %d", reply, code)
	}
	if reply, code := h.get(rev, keyOf("keys", "other"), 1000); code != 0 || len(reply.Items) != 0 {
		t.Errorf("another key: %+v, %d", reply, code)
	}
	for name, c := range map[string]struct {
		message []byte
		most    int
		want    int64
	}{
		"an index that is not there": {keyOf("others", "hello"), 1000, abi.CodeDenied},
		"no name of an index":        {keyOf("Keys", "hello"), 1000, abi.CodeInvalid},
		"a long reply":               {keyOf("keys", "hello"), 30, abi.CodeTooLarge},
	} {
		if _, code := h.get(rev, c.message, c.most); code != c.want || c.want != abi.CodeTooLarge && len(h.log) != 1 {
			t.Errorf("%s: %d, %q", name, code, h.log)
		}
	}
}

func TestPrimariesAreFoundByAnIndex(t *testing.T) {
	h := newHost(t)
	section := abi.Section{Name: contract.Name, Value: contract.Encode([]contract.Index{{Name: "x", Kind: configMap}, {Name: "y", Kind: pod}})}
	rev := &dispatch.Revision{Controller: abi.Controller{For: configMap.All(), Sections: []abi.Section{section}}}
	list, ok := h.hooks.Resolve(rev, "x", "k")
	if want := having("p", contract.Index{Name: "x", Kind: configMap}, "k"); !ok || !reflect.DeepEqual(list, want) || want.Fields[0].Value != "k" {
		t.Errorf("%+v, %v", list, ok)
	}
	for _, name := range []string{"y", "z", ""} {
		if list, ok := h.hooks.Resolve(rev, name, "k"); ok {
			t.Errorf("%q: %+v", name, list)
		}
	}
}

// The revisions before and after it share what stays.
func TestIndexesAreThoseOfTheRevision(t *testing.T) {
	h := newHost(t)
	h.configMap("one", "1")
	rev := h.use("index")
	h.hasKey(rev, `a/one={"length":5}`)
	failed := func(want float64) {
		t.Helper()
		that(t, func() error {
			counter, err := h.metrics.Registry.Gather()
			if err != nil {
				return err
			}
			for _, f := range counter {
				if f.GetName() == "thole_index_failures_total" && f.GetMetric()[0].GetCounter().GetValue() == want {
					return nil
				}
			}
			return errors.New("the failures are not counted")
		})
	}
	failed(0)
	rev = h.use("index-trap")
	failed(1)
	h.hasKey(rev, `a/one={"length":5}`)
	that(t, func() error {
		h.mu.Lock()
		defer h.mu.Unlock()
		if !slices.Equal(h.events, []string{"one Warning IndexFailed"}) {
			return fmt.Errorf("Events %q", h.events)
		}
		return nil
	})
	h.configMap("two", "1")
	failed(2)
	h.part.Granted() // which calls the function for both
	failed(4)
	rev = h.use("index-no-keys")
	h.hasKey(rev)
	h.start(nil, &abi.Manifest{Controllers: []abi.Controller{{}}})
	if _, code := h.get(rev, keyOf("keys", "hello"), 1000); code != abi.CodeUnavailable {
		t.Errorf("a run that ends after its index: %d", code)
	}
	if n, err := testutil.GatherAndCount(h.metrics.Registry, "thole_index_failures_total"); n != 1 || err != nil {
		t.Errorf("%d series, %v", n, err)
	}
}

func TestPluginWithoutTheExportIsRefused(t *testing.T) {
	h := newHost(t)
	c, _ := tck.CaseOf("index-without-export")
	_, err := h.sandbox.Load(t.Context(), sandbox.Plugin{Name: c.Name, Wasm: c.Wasm()})
	if err == nil || !strings.Contains(err.Error(), `has functionIndexes, and export "index" is missing, which gives keys to an object: export the function, or remove functionIndexes from the manifest`) {
		t.Error(err)
	}
}

func TestIndexesAreDescribed(t *testing.T) {
	c := &abi.Controller{Sections: []abi.Section{{Name: contract.Name, Value: contract.Encode([]contract.Index{{Name: "a", Kind: pod}, {Name: "b", Kind: configMap}})}}}
	if got := describe(c); got != "a of v1 Pod, by a function; b of v1 ConfigMap, by a function" || describe(&abi.Controller{}) != "" {
		t.Error(got)
	}
}
