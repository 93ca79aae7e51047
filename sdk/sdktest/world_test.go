package sdktest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/sdk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	thing  = sdk.Kind{APIVersion: "example.com/v1", Kind: "Thing"}
	child  = sdk.Kind{APIVersion: "v1", Kind: "Child"}
	other  = sdk.Kind{APIVersion: "v1", Kind: "Other"}
	wide   = sdk.Kind{APIVersion: "v1", Kind: "Wide"}
	theOne = thing.Ref("ns", "one")
)

// script is a [Runner] that returns what the test has set.
type script struct {
	controller abi.Controller
	managed    bool
	code       abi.Code
	result     abi.Result
	err        error
	text       []byte // instead of result
	request    *abi.Request
}

func (s *script) Describe() []byte {
	return abi.EncodeManifest(&abi.Manifest{Name: "plug", Managed: s.managed, Controllers: []abi.Controller{s.controller}})
}

func (s *script) Reconcile(request []byte, _ Host) (abi.Code, []byte, error) {
	q, err := abi.DecodeRequest(request)
	if err != nil {
		return 0, nil, err
	}
	s.request = q
	if s.text != nil {
		return s.code, s.text, s.err
	}
	return s.code, abi.EncodeResult(&s.result), s.err
}

func newScript() *script {
	return &script{
		controller: abi.Controller{
			Name: "ctl", For: thing.All(), Owns: abi.AllOf(child), Writes: []abi.Kind{other}, Finalizer: true,
		},
		result: abi.Result{Result: abi.OutcomeSuccess},
	}
}

// scripted returns a world with one object. Its controller owns Child and the given
// kinds.
func scripted(tb testing.TB, owns ...sdk.Kind) (*World, *script) {
	tb.Helper()
	s := newScript()
	for _, k := range owns {
		if k != child {
			s.controller.Owns = append(s.controller.Owns, k.All())
		}
	}
	w := NewWith(tb, s)
	w.Create(`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"namespace":"ns","name":"one"},"spec":{"a":1}}`)
	return w, s
}

// wants sets a result that applies these objects.
func (s *script) wants(objects ...string) {
	s.result = abi.Result{Result: abi.OutcomeSuccess}
	for _, o := range objects {
		s.result.Apply = append(s.result.Apply, abi.Apply{Object: []byte(o)})
	}
}

func TestRetryAfterNeedsNoPolicy(t *testing.T) {
	sdk.Register(sdk.Controller[struct{}, struct{}]{
		Name: "plain", For: thing,
		Reconcile: func(*sdk.Request[struct{}, struct{}]) (sdk.Action, error) {
			return sdk.Action{}, sdk.RetryAfter(time.Hour, errors.New("no luck"))
		},
	})
	w := New(t)
	w.Create(`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"namespace":"ns","name":"one"}}`)
	if run := w.Reconcile("ns/one").ExpectRetry("").ExpectNext(time.Hour); run.Message != "no luck" {
		t.Errorf("the message is %q", run.Message)
	}
}

type anyObject struct {
	Metadata sdk.ObjectMeta
	Data     map[string]any
	Status   map[string]any
}

func get(tb testing.TB, w *World, ref sdk.Ref) (o anyObject) {
	tb.Helper()
	if !w.Get(ref, &o) {
		tb.Fatalf("%s does not exist", ref)
	}
	return o
}

func TestApplyRemovesOnlyFieldsThatItHadApplied(t *testing.T) {
	w, s := scripted(t)
	ref := child.Ref("ns", "c")
	s.wants(`{"apiVersion":"v1","kind":"Child","metadata":{"name":"c","labels":{"a":"b"}},"data":{"x":1,"y":[1,2]},"status":{"no":1}}`)
	w.Reconcile("ns/one").ExpectReady().ExpectWrites("finalizer", "apply v1 Child ns/c", "status")

	o := get(t, w, ref)
	if m := o.Metadata; m.Generation != 1 || m.UID == "" || m.ResourceVersion == "" || m.CreationTimestamp != sdk.TimeOf(w.Now()) ||
		!m.ControlledBy(get(t, w, theOne).Metadata.UID) || o.Status != nil {
		t.Errorf("the child is %+v", o)
	}

	w.Change(ref, `{"data":{"z":9,"x":7},"metadata":{"labels":{"theirs":"1"}}}`)
	s.wants(`{"apiVersion":"v1","kind":"Child","metadata":{"name":"c"},"data":{"x":1}}`)
	w.Reconcile("ns/one").ExpectWrites("apply v1 Child ns/c")
	o = get(t, w, ref)
	if fmt.Sprint(o.Data) != "map[x:1 z:9]" || fmt.Sprint(o.Metadata.Labels) != "map[theirs:1]" || o.Metadata.Generation != 3 {
		t.Errorf("a field that is no longer wanted remains, or a field of another writer is gone: %+v", o)
	}
	w.Reconcile("ns/one").ExpectNoWrites()
}

func TestApplyIsCheckedAgainstManifestAndOwner(t *testing.T) {
	for name, c := range map[string]struct {
		object string
		class  abi.Class
		reason string
	}{
		"undeclared kind":              {`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"c"}}`, abi.ClassDenied, "NotDeclared"},
		"another namespace":            {`{"apiVersion":"v1","kind":"Child","metadata":{"name":"c","namespace":"far"}}`, abi.ClassDenied, "OutOfScope"},
		"exists without controller":    {`{"apiVersion":"v1","kind":"Child","metadata":{"name":"taken"}}`, abi.ClassDenied, "NotAdopted"},
		"controlled by another object": {`{"apiVersion":"v1","kind":"Other","metadata":{"name":"theirs"}}`, abi.ClassDenied, "ControlledByAnother"},
		"primary owns itself":          {`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"one"}}`, abi.ClassDenied, "OutOfScope"},
		"cluster-scoped, namespaced":   {`{"apiVersion":"v1","kind":"Wide","metadata":{"name":"c","namespace":"ns"}}`, abi.ClassABI, "InvalidIntent"},
		"cluster-scoped, owned":        {`{"apiVersion":"v1","kind":"Wide","metadata":{"name":"c"}}`, abi.ClassDenied, "OutOfScope"},
		"named by two intents":         {`{"apiVersion":"v1","kind":"Child","metadata":{"name":"later","namespace":"ns"}}`, abi.ClassABI, "InvalidIntent"},
		"no name":                      {`{"apiVersion":"v1","kind":"Child","metadata":{}}`, abi.ClassABI, "ContractBroken"},
		"kind in writes":               {`{"apiVersion":"v1","kind":"Other","metadata":{"name":"taken"}}`, abi.ClassNone, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w, s := scripted(t, child, wide, thing)
			w.ClusterScoped(wide)
			w.Create(`{"apiVersion":"v1","kind":"Child","metadata":{"namespace":"ns","name":"taken"}}`)
			w.Create(`{"apiVersion":"v1","kind":"Other","metadata":{"namespace":"ns","name":"theirs","ownerReferences":[{"uid":"x","controller":true}]}}`)
			s.wants(c.object, `{"apiVersion":"v1","kind":"Child","metadata":{"name":"later"}}`)
			s.result.Status = []byte(`{"seen":true}`)
			run := w.Reconcile("ns/one").ExpectClass(c.class)
			if run.Reason != c.reason {
				t.Errorf("the reason is %q (%s)", run.Reason, run.Message)
			}
			failed := c.class != abi.ClassNone
			if w.Exists(child.Ref("ns", "later")) == failed || (get(t, w, theOne).Status["seen"] == nil) != failed {
				t.Errorf("the other effects were performed: %t, expected %t", failed, !failed)
			}
		})
	}
}

func TestIntentsAreCheckedBeforeFirstIsPerformed(t *testing.T) {
	w, s := scripted(t)
	s.wants(`{"apiVersion":"v1","kind":"Child","metadata":{"name":"c"}}`, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"}}`)
	w.Reconcile("ns/one").ExpectClass(abi.ClassDenied).ExpectWrites("finalizer", "status")
	w.ExpectGone(child.Ref("ns", "c"))
}

func TestApplyOfUnchangedObjectWritesNothing(t *testing.T) {
	w, s := scripted(t)
	s.wants(`{"apiVersion":"v1","kind":"Child","metadata":{"name":"c"},"data":{"x":1}}`)
	w.Reconcile("ns/one")
	w.Change(child.Ref("ns", "c"), `{"status":{"theirs":1}}`)
	var raw sdk.Raw
	w.Get(child.Ref("ns", "c"), &raw)
	w.Change(child.Ref("ns", "c"), `{"status":{"theirs":2}}`)
	s.wants(string(raw))
	w.Reconcile("ns/one").ExpectReady().ExpectNoWrites()
}

func TestFinalizerIsAddedWithFirstEffectToUndo(t *testing.T) {
	w, s := scripted(t)
	s.result.Events = []abi.Event{{Type: abi.EventNormal, Reason: "Seen"}}
	w.Reconcile("ns/one").ExpectReady().ExpectWrites("status")
	s.wants(`{"apiVersion":"v1","kind":"Child","metadata":{"name":"c"}}`)
	w.Reconcile("ns/one").ExpectReady().ExpectWrites("finalizer", "apply v1 Child ns/c")
}

func TestCrossNamespaceAllowsWritesButNoOwners(t *testing.T) {
	w, s := scripted(t)
	w.CrossNamespace()
	far := `{"apiVersion":"v1","kind":"Other","metadata":{"name":"c","namespace":"far"}}`
	s.wants(far)
	w.Reconcile("ns/one").ExpectReady().ExpectWrites("finalizer", "apply v1 Other far/c", "status")
	s.wants(`{"apiVersion":"v1","kind":"Child","metadata":{"name":"c","namespace":"far"}}`)
	w.Reconcile("ns/one").ExpectRetry("OutOfScope") // an owner has the same namespace

	s.result = abi.Result{Result: abi.OutcomeSuccess, Delete: []abi.Delete{{Ref: other.Ref("far", "c")}}}
	w.FailWrite("delete v1 Other far/c", "Forbidden")
	w.Reconcile("ns/one").ExpectRetry("Forbidden")
	w.FailWrite("delete v1 Other far/c", "")
	w.Reconcile("ns/one").ExpectReady().ExpectWrites("delete v1 Other far/c", "status")
}

func TestCrossNamespaceAllowsReads(t *testing.T) {
	s := newScript()
	s.controller.Reads = abi.AllOf(other)
	w := NewWith(t, s)
	w.Create(`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"namespace":"ns","name":"one"}}`)
	for _, ns := range []string{"far", "ns"} {
		w.Create(`{"apiVersion":"v1","kind":"Other","metadata":{"name":"c","namespace":"` + ns + `"}}`)
	}
	host := asHost{&Run{tb: t, world: w, primary: w.mustExist("read", theOne)}}
	found := func() (all int, one int64) {
		text, _ := host.List(abi.EncodeListCall(&abi.ListCall{APIVersion: "v1", Kind: "Other"}))
		reply, err := abi.DecodeListReply(text)
		if err != nil {
			t.Fatal(err)
		}
		_, one = host.Get(abi.EncodeGetCall(&abi.GetCall{Ref: other.Ref("far", "c")}))
		return len(reply.Items), one
	}
	if all, one := found(); all != 1 || one != abi.CodeDenied {
		t.Errorf("list returns %d objects of the own namespace, get in another namespace returns %d", all, one)
	}
	w.CrossNamespace()
	if all, one := found(); all != 2 || one <= 0 {
		t.Errorf("list returns %d objects of all namespaces, get in another namespace returns %d", all, one)
	}
}

func TestKindsOfKubernetesGetOnlyDeclaredConditions(t *testing.T) {
	s := newScript()
	s.controller.For = other.All()
	w := NewWith(t, s)
	w.Create(`{"apiVersion":"v1","kind":"Other","metadata":{"namespace":"ns","name":"one"}}`)
	w.Reconcile("ns/one").ExpectSuccess().ExpectNoWrites()

	s.controller.Conditions = abi.Conditions{Target: "plug.example.com/Ready"}
	w = NewWith(t, s)
	w.Create(`{"apiVersion":"v1","kind":"Other","metadata":{"namespace":"ns","name":"one"}}`)
	w.Reconcile("ns/one").ExpectReady().ExpectWrites("status")
}

func TestAdoptTakesOverUncontrolledObject(t *testing.T) {
	w, s := scripted(t)
	w.Create(`{"apiVersion":"v1","kind":"Child","metadata":{"namespace":"ns","name":"c"}}`)
	s.result.Apply = []abi.Apply{{Object: []byte(`{"apiVersion":"v1","kind":"Child","metadata":{"name":"c"}}`), Adopt: true}}
	w.Reconcile("ns/one").ExpectReady()
	if !get(t, w, child.Ref("ns", "c")).Metadata.ControlledBy(get(t, w, theOne).Metadata.UID) {
		t.Error("the object was not adopted")
	}
}

func TestDeleteHonoursUID(t *testing.T) {
	w, s := scripted(t)
	ref := w.Create(`{"apiVersion":"v1","kind":"Other","metadata":{"namespace":"ns","name":"c"}}`)
	s.result.Delete = []abi.Delete{{Ref: abi.Ref{APIVersion: "v1", Kind: "Other", Name: "c", UID: "another"}}}
	w.Reconcile("ns/one").ExpectWrites("finalizer", "status")
	s.result.Delete[0].UID = ref.UID
	w.Reconcile("ns/one").ExpectWrites("delete v1 Other ns/c")
	w.Reconcile("ns/one").ExpectNoWrites()
	w.ExpectGone(ref)
}

func TestDeleteIsCheckedAgainstOwner(t *testing.T) {
	owner := func(uid string) string { return fmt.Sprintf(`,"ownerReferences":[{"uid":%q,"controller":true}]`, uid) }
	for name, c := range map[string]struct{ kind, owner, reason string }{
		"no controller":                      {"Child", "", "NotControlled"},
		"controlled by another object":       {"Child", owner("x"), "ControlledByAnother"},
		"kind in writes, another controller": {"Other", owner("x"), "ControlledByAnother"},
		"controlled by the primary":          {"Child", owner("uid-1"), ""},
	} {
		w, s := scripted(t)
		ref := w.Create(fmt.Sprintf(`{"apiVersion":"v1","kind":%q,"metadata":{"namespace":"ns","name":"c"%s}}`, c.kind, c.owner))
		s.result.Delete = []abi.Delete{{Ref: abi.Ref{APIVersion: "v1", Kind: c.kind, Name: "c"}}}
		run := w.Reconcile("ns/one")
		if run.Reason != c.reason || w.Exists(ref) != (c.reason != "") {
			t.Errorf("%s: the reason is %q, the object exists: %t", name, run.Reason, w.Exists(ref))
		}
	}
}

func TestDeletionWaitsForFinalizersAndDeletesChildren(t *testing.T) {
	w, s := scripted(t)
	s.wants(`{"apiVersion":"v1","kind":"Child","metadata":{"name":"c"}}`, `{"apiVersion":"v1","kind":"Other","metadata":{"name":"o"}}`)
	w.Reconcile("ns/one").ExpectReady()

	w.Advance(time.Minute)
	w.Delete(theOne)
	if m := get(t, w, theOne).Metadata; m.DeletionTimestamp != sdk.TimeOf(w.Now()) {
		t.Errorf("the object is not being deleted: %+v", m)
	}
	s.wants()
	w.Reconcile("ns/one").ExpectWrites("release")
	if !s.request.Deleting {
		t.Error("Deleting is not set in the request")
	}
	w.ExpectGone(theOne)
	w.ExpectGone(child.Ref("ns", "c"))
	if !w.Exists(other.Ref("ns", "o")) {
		t.Error("an object that is not owned was deleted too")
	}
}

func TestStateOfHostIsInNextRequest(t *testing.T) {
	w, s := scripted(t)
	s.code, s.result = abi.CodeRetry, abi.Result{Memo: []byte(`[1]`), Error: &abi.Failure{Reason: "Bad", Message: "m"}}
	w.Reconcile("ns/one").ExpectRetry("Bad")
	w.Reconcile("ns/one").ExpectRetry("Bad")
	w.Reconcile("ns/one")
	if q := s.request; q.Attempt != 2 || q.Previous.Class != abi.ClassRetry || string(q.Memo) != "[1]" {
		t.Errorf("the request is %+v", q)
	}
	s.err = fmt.Errorf("trapped")
	w.Reconcile("ns/one").ExpectClass(abi.ClassPanic).ExpectRetry("")
	s.err, s.code, s.result = nil, abi.CodeOK, abi.Result{Result: abi.OutcomeSuccess}
	w.Reconcile("ns/one").ExpectReady()
	if q := s.request; q.Attempt != 4 || string(q.Memo) != "[1]" {
		t.Errorf("the request is %+v", q)
	}
	w.Reconcile("ns/one")
	if q := s.request; q.Attempt != 0 || q.Previous != nil || q.Memo != nil {
		t.Errorf("the request is %+v", q)
	}
}

func TestConflictsAreFailuresOnlyIfTheyPersist(t *testing.T) {
	w, s := scripted(t)
	s.result.Apply = []abi.Apply{{Object: []byte(`{"apiVersion":"v1","kind":"Child","metadata":{"name":"c"}}`)}}
	w.FailWrite("apply v1 Child ns/c", "Conflict")
	w.Reconcile("ns/one").ExpectWrites("finalizer").ExpectRetry("Conflict").ExpectCondition("Ready", "", "")
	for range 3 {
		w.Reconcile("ns/one").ExpectNoWrites().ExpectCondition("Ready", "", "")
	}
	w.Reconcile("ns/one").ExpectCondition("Ready", "False", "Conflict")
	if s.request.Attempt != 0 {
		t.Errorf("attempt %d before the first conflict that counts, want 0", s.request.Attempt)
	}
	w.Reconcile("ns/one")
	if s.request.Attempt != 1 {
		t.Errorf("attempt %d after the first conflict that counts, want 1", s.request.Attempt)
	}
}

func TestInvalidResultHasClassABI(t *testing.T) {
	for _, text := range []string{`{"result":"success","more":1}`, `{`, `{"result":"perhaps"}`, `{"result":"success","status":{"conditions":[]}}`} {
		w, s := scripted(t)
		s.text = []byte(text)
		w.Reconcile("ns/one").ExpectClass(abi.ClassABI)
	}
}

func TestSelectorMatchesAsInKubernetes(t *testing.T) {
	labels := map[string]string{"a": "b", "c": ""}
	for text, want := range map[string]bool{
		"": true, " ": true, "a=b": true, "a==b": true, "a = b": true, "a=c": false, "a!=b": false, "a!=c": true, "x!=y": true, "x=y": false,
		"a": true, "!a": false, "x": false, "!x": true, "c=": true, "c": true, "a in (b)": true, "a in (x, b)": true, "a in (x)": false,
		"a notin (b)": false, "x notin (b)": true, "a=b,c": true, "a=b,!c": false, "a in (b,c),c": true, "a in (b,c),x": false,
	} {
		match, err := parseSelector(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
		} else if match.matches(labels) != want {
			t.Errorf("%q matches: %t", text, !want)
		}
	}
	for _, text := range []string{"a b", "a in b", "a=b=c", "a,", "=b", "a in (b", "!"} {
		if _, err := parseSelector(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

// recorder is a testing.TB that records failures.
type recorder struct {
	testing.TB
	failures []string
}

func (r *recorder) Helper() {}
func (r *recorder) Errorf(format string, a ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, a...))
}

func (r *recorder) Fatalf(format string, a ...any) {
	r.Errorf(format, a...)
	panic(r)
}

// TestUnmetExpectationFailsTest calls every expectation such that it must fail.
func TestUnmetExpectationFailsTest(t *testing.T) {
	for name, check := range map[string]func(*World, *script){
		"ready":     func(w *World, s *script) { s.code = abi.CodeRetry; w.Reconcile("ns/one").ExpectReady() },
		"success":   func(w *World, s *script) { s.code = abi.CodeRetry; w.Reconcile("ns/one").ExpectSuccess() },
		"retry":     func(w *World, s *script) { w.Reconcile("ns/one").ExpectRetry("") },
		"reason":    func(w *World, s *script) { s.code = abi.CodeRetry; w.Reconcile("ns/one").ExpectRetry("Other") },
		"stalled":   func(w *World, s *script) { w.Reconcile("ns/one").ExpectStalled("") },
		"waiting":   func(w *World, s *script) { w.Reconcile("ns/one").ExpectWaiting("") },
		"requeue":   func(w *World, s *script) { w.Reconcile("ns/one").ExpectRequeue() },
		"empty":     func(w *World, s *script) { w.Reconcile("ns/one").ExpectEmpty() },
		"next":      func(w *World, s *script) { w.Reconcile("ns/one").ExpectNext(time.Second) },
		"condition": func(w *World, s *script) { w.Reconcile("ns/one").ExpectCondition("Ready", "True", "Other") },
		"writes":    func(w *World, s *script) { w.Reconcile("ns/one").ExpectNoWrites() },
		"events":    func(w *World, s *script) { w.Reconcile("ns/one").ExpectEvents("X") },
		"log":       func(w *World, s *script) { w.Reconcile("ns/one").ExpectLog("x") },
		"class":     func(w *World, s *script) { w.Reconcile("ns/one").ExpectClass(abi.ClassPanic) },
		"gone":      func(w *World, s *script) { w.ExpectGone(theOne) },
		"settle": func(w *World, s *script) {
			n := 0
			w.runner = runnerFunc(func() []byte { n++; return fmt.Appendf(nil, `{"result":"success","status":{"n":%d}}`, n) })
			w.Settle("ns/one")
		},
		"create existing object": func(w *World, s *script) {
			w.Create(`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"namespace":"ns","name":"one"}}`)
		},
		"create without name":      func(w *World, s *script) { w.Create(`{"kind":"Thing"}`) },
		"create from invalid JSON": func(w *World, s *script) { w.Create(`{`) },
		"change missing object":    func(w *World, s *script) { w.Change(thing.Ref("ns", "two"), `{}`) },
		"reconcile missing object": func(w *World, s *script) { w.Reconcile("ns/two") },
		"reconcile without finalizer": func(w *World, s *script) {
			w.Change(theOne, `{"metadata":{"finalizers":["theirs"]}}`)
			w.Delete(theOne)
			w.Reconcile("ns/one")
		},
		"reconcile object that is not followed": func(w *World, s *script) {
			s.controller.For.LabelSelector = "shard=a"
			w = NewWith(w.tb, s)
			w.Create(`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"namespace":"ns","name":"one"}}`)
			w.Reconcile("ns/one")
		},
		"selector that does not parse": func(w *World, s *script) {
			s.controller.For.LabelSelector = "a b"
			NewWith(w.tb, s)
		},
		"choose unknown controller": func(w *World, s *script) { NewWith(w.tb, s, "another") },
	} {
		t.Run(name, func(t *testing.T) {
			tb := &recorder{TB: t}
			defer func() {
				if p := recover(); p != nil && p != any(tb) {
					panic(p)
				}
				if len(tb.failures) != 1 || strings.Contains(tb.failures[0], "%!") {
					t.Errorf("the failures are %q, expected one", tb.failures)
				}
			}()
			w, s := scripted(tb)
			check(w, s)
		})
	}
}

type runnerFunc func() []byte

func (runnerFunc) Describe() []byte { return nil }
func (f runnerFunc) Reconcile([]byte, Host) (abi.Code, []byte, error) {
	return abi.CodeOK, f(), nil
}

func TestIntentsAreLimitedAsByThePolicy(t *testing.T) {
	w, s := scripted(t)
	for range abi.MaxIntents + 1 {
		s.result.Events = append(s.result.Events, abi.Event{Type: abi.EventNormal, Reason: "Any"})
	}
	if r := w.Reconcile("ns/one"); r.Class != abi.ClassABI {
		t.Errorf("more than the default: class %q", r.Class)
	}
	w.LimitIntents(abi.MaxIntents + 1)
	if r := w.Reconcile("ns/one"); r.Class != abi.ClassNone {
		t.Errorf("as many as the policy allows: %s", r.Message)
	}
}
