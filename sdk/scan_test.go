package sdk_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/gauges"
	"github.com/thole-dev/thole/abi/scans"
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/internal/guest"
	"github.com/thole-dev/thole/sdk/sdktest"
)

// The scan of this file's controller is set by the tests.

type labSpec struct {
	Seats int `json:"seats,omitempty"`
}

type labStatus struct {
	Phase string `json:"phase,omitempty"`
}

type lab = sdk.Request[labSpec, labStatus]

var (
	labKind = sdk.Kind{APIVersion: "scan.example.com/v1", Kind: "Lab"}

	onScan func(*sdk.Scanning) error
	onLab  func(*lab)
)

var podsByLab = sdk.IndexBy("pods-by-lab", sdk.Kind{APIVersion: "v1", Kind: "Pod"}, func(x *sdk.Indexing) error {
	var pod shopPod
	err := x.Object(&pod)
	x.Add(pod.Metadata.Labels["lab"], nil)
	return err
})

func init() {
	sdk.Register(sdk.Controller[labSpec, labStatus]{
		Name: "lab", For: labKind, Reads: []sdk.Kind{podsByLab.Kind, configMap},
		Indexes: []sdk.Index{podsByLab, {Name: "phase", Kind: labKind, Field: "status.phase"}},
		HTTP:    []sdk.HTTPHost{{Host: "lab.example.com"}},
		Reconcile: func(r *lab) (sdk.Action, error) {
			onLab(r)
			return sdk.AwaitChange(), nil
		},
		Scans: []sdk.ScanFunc{
			sdk.Scan("due", 30*time.Second, func(s *sdk.Scanning) error { return onScan(s) }),
			sdk.Scan("cleanup", 5*time.Minute, func(s *sdk.Scanning) error { s.Run("a", "cleaned"); return nil }),
		},
		Gauges: []sdk.Gauge{{Index: "phase"}},
	})
}

// scanning returns a world with Labs of these names in the namespace a, and whose scan is that.
func scanning(t *testing.T, scan func(*sdk.Scanning) error, names ...string) *sdktest.World {
	t.Helper()
	onScan, onLab = scan, func(*lab) {}
	w := sdktest.New(t, "lab")
	for _, name := range names {
		w.Create(`{"apiVersion":"scan.example.com/v1","kind":"Lab","metadata":{"namespace":"a","name":"` + name + `"},"spec":{"seats":2},"status":{"phase":"Pending"}}`)
	}
	return w
}

func TestScansAndGaugesArePartOfTheManifest(t *testing.T) {
	m, err := abi.DecodeManifest(abi.EncodeManifest(guest.Manifest()))
	if err != nil {
		t.Fatal(err)
	}
	of := func(name string) *abi.Controller {
		return &m.Controllers[slices.IndexFunc(m.Controllers, func(c abi.Controller) bool { return c.Name == name })]
	}
	want := []scans.Scan{{Name: "due", Interval: 30_000}, {Name: "cleanup", Interval: 300_000}}
	lab, err := scans.Decode(of("lab").Section(scans.Name))
	if err != nil {
		t.Fatal(err)
	}
	if c := of("lab"); !slices.Equal(lab, want) || string(c.Section(gauges.Name)) != `[{"index":"phase"}]` {
		t.Errorf("the scans are %+v, the gauges %s", lab, c.Section(gauges.Name))
	}
	if c := of("shop"); c.Section(scans.Name) != nil || c.Section(gauges.Name) != nil {
		t.Errorf("the controller is %+v", c)
	}
}

func TestScanWithoutFunctionPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("it is accepted")
		}
	}()
	sdk.Scan("due", time.Minute, nil)
}

func TestAScanMakesObjectsRunWithSignals(t *testing.T) {
	w := scanning(t, func(s *sdk.Scanning) error {
		s.Signal("a", "one", 1)
		s.Run("a", "two")
		s.Signal("a", "one", map[string]bool{"two": true})
		s.Run("a", "none")
		return nil
	}, "one", "two")
	s := w.Scan("due").ExpectObjects("a/one", "a/two").ExpectSignals(`1`, `{"two":true}`)
	if !slices.Equal(s.Ignored, []string{"a/none"}) {
		t.Errorf("ignored: %q", s.Ignored)
	}
	var signals string
	var reasons []sdk.Reason
	onLab = func(r *lab) { signals, reasons = fmt.Sprintf("%s", r.Signals), r.Reasons }
	w.Reconcile("a/one").ExpectReady()
	if signals != `[1 {"two":true}]` || !slices.Contains(reasons, abi.ReasonSignal) {
		t.Errorf("the signals are %s, the reasons %q", signals, reasons)
	}
	if w.Reconcile("a/one").ExpectReady(); signals != "[]" || slices.Contains(reasons, abi.ReasonSignal) {
		t.Errorf("the signals are %s again, the reasons %q", signals, reasons)
	}
	w.Scan("cleanup").ExpectObjects()
}

func TestAScanReadsInAllNamespaces(t *testing.T) {
	w := scanning(t, nil, "one", "two")
	w.Create(`{"apiVersion":"scan.example.com/v1","kind":"Lab","metadata":{"namespace":"b","name":"three"},"spec":{"seats":3},"status":{"phase":"Pending"}}`)
	w.Create(`{"apiVersion":"scan.example.com/v1","kind":"Lab","metadata":{"namespace":"b","name":"ended"},"status":{"phase":"Ended"}}`)
	w.Create(`{"apiVersion":"scan.example.com/v1","kind":"Lab","metadata":{"namespace":"b","name":"bad"},"spec":{"seats":"none"},"status":{"phase":"Pending"}}`)
	w.Create(`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"b","name":"pod","labels":{"lab":"three"}}}`)
	w.Create(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"b","name":"words"},"data":{"hello":"hi"}}`)
	w.Configure(map[string]int{"most": 2})
	onScan = func(s *sdk.Scanning) error {
		if !s.Now.Equal(w.Now()) {
			t.Errorf("at %s", s.Now)
		}
		var config struct{ Most int }
		if err := s.Config(&config); err != nil || config.Most != 2 {
			t.Errorf("the configuration is %+v, %v", config, err)
		}
		var words struct{ Data map[string]string }
		if err := s.Get(configMap.Ref("b", "words"), &words); err != nil || words.Data["hello"] != "hi" {
			t.Errorf("get returns %+v, %v", words, err)
		}
		items, err := s.Lookup(sdk.IndexQuery{Index: "pods-by-lab", Key: "three"})
		if err != nil || len(items) != 1 || items[0].Name != "pod" {
			t.Errorf("lookup returns %+v, %v", items, err)
		}
		pending, err := sdk.Primaries[labSpec, labStatus](s, sdk.Query{FieldSelector: "status.phase=Pending"})
		var found []string
		for _, o := range pending {
			found = append(found, fmt.Sprint(o.Namespace, "/", o.Name, " ", o.Spec.Seats, " ", o.Status.Phase))
			if o.Spec.Seats > config.Most {
				s.Run(o.Namespace, o.Name)
			}
		}
		if want := []string{"a/one 2 Pending", "a/two 2 Pending", "b/three 3 Pending"}; !slices.Equal(found, want) {
			t.Errorf("the primaries are %q, want %q", found, want)
		}
		if n := s.Rand().IntN(1000); n < 0 {
			t.Error(n)
		}
		return err
	}
	w.Scan("due").ExpectObjects("b/three").ExpectLog("leaves out an object")
}

func TestAScanThatFails(t *testing.T) {
	w := scanning(t, nil, "one")
	for name, c := range map[string]struct {
		scan   func(*sdk.Scanning) error
		class  abi.Class
		reason string
	}{
		"an error": {func(s *sdk.Scanning) error { s.Run("a", "one"); return errors.New("no") }, abi.ClassRetry, ""},
		"stalled":  {func(*sdk.Scanning) error { return sdk.Stalled("Wrong", errors.New("no")) }, abi.ClassStalled, "Wrong"},
		"a signal that cannot be encoded": {func(s *sdk.Scanning) error {
			s.Signal("a", "one", func() {})
			return nil
		}, abi.ClassStalled, "InvalidSignal"},
		"a signal that is too large": {func(s *sdk.Scanning) error {
			s.Signal("a", "one", strings.Repeat("x", 4095))
			return nil
		}, abi.ClassStalled, "InvalidSignal"},
		"a kind that is not declared": {func(s *sdk.Scanning) error {
			var all []sdk.Raw
			return s.List(sdk.Query{Kind: sdk.Kind{APIVersion: "v1", Kind: "Secret"}}, &all)
		}, abi.ClassRetry, ""},
	} {
		t.Run(name, func(t *testing.T) {
			onScan = c.scan
			if s := w.Scan("due").ExpectFailure(c.class, c.reason); len(s.Objects) != 0 || len(s.Result.Objects) != 0 {
				t.Errorf("it names %q", s.Objects)
			}
		})
	}
	onScan = func(s *sdk.Scanning) error {
		s.Signal("a", "one", strings.Repeat("x", 4094))
		return nil
	}
	w.Scan("due").ExpectObjects("a/one")
}

func TestAScanNamesNoMoreThanItMay(t *testing.T) {
	w := scanning(t, func(s *sdk.Scanning) error {
		for range scans.MaxObjects + 5 {
			s.Run("a", "one")
		}
		return nil
	}, "one")
	if n := len(w.Scan("due").ExpectObjects("a/one").Result.Objects); n != scans.MaxObjects {
		t.Errorf("%d objects", n)
	}
}
