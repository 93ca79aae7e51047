package sdktest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
)

// withChildren returns the world of scripted.
func withChildren(t *testing.T) (*World, *script) {
	t.Helper()
	s := newScript()
	w := NewWith(t, s)
	w.Create(`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"namespace":"ns","name":"one"}}`)
	s.result.Result = abi.OutcomeSuccess
	return w, s
}

// applies sets a result with one apply, of the object c.
func (s *script) applies(kind, members string, change func(*abi.Apply)) {
	a := abi.Apply{Object: fmt.Appendf(nil, `{"apiVersion":"v1","kind":%q,"metadata":{"name":"c"},%s}`, kind, members)}
	change(&a)
	s.result = abi.Result{Result: abi.OutcomeSuccess, Apply: []abi.Apply{a}}
}

func create(a *abi.Apply)  { a.Create = true }
func replace(a *abi.Apply) { a.Replace = true }
func plain(*abi.Apply)     {}

func TestCreateNeverChangesAnObject(t *testing.T) {
	for _, kind := range []string{"Child", "Other"} { // owned, and written
		w, s := withChildren(t)
		w.Create(fmt.Sprintf(`{"apiVersion":"v1","kind":%q,"metadata":{"namespace":"ns","name":"c"},"data":{"k":"theirs"}}`, kind))
		ref := abi.Ref{APIVersion: "v1", Kind: kind, Namespace: "ns", Name: "c"}
		s.applies(kind, `"data":{"k":"ours"}`, create)
		run := w.Reconcile("ns/one").ExpectRetry("AlreadyExists")
		if run.decision.Tries.Attempt != 0 {
			t.Error("a name that is taken for the first time is no attempt")
		}
		run = w.Reconcile("ns/one").ExpectRetry("AlreadyExists")
		if run.decision.Tries.Attempt != 1 {
			t.Error("a name that stays taken is an attempt")
		}
		w.Delete(ref)
		w.Reconcile("ns/one").ExpectReady()
		w.Change(ref, `{"data":{"k":"changed"}}`)
		w.Reconcile("ns/one").ExpectReady() // it has created the object
		if got := get(t, w, ref).Data["k"]; got != "changed" {
			t.Errorf("create has changed it to %v", got)
		}
		s.applies(kind, `"data":{"k":"another"}`, create)
		w.Reconcile("ns/one").ExpectRetry("AlreadyExists")
		s.applies(kind, `"data":{"k":"another"}`, plain)
		w.Reconcile("ns/one").ExpectWrites("apply v1 " + kind + " ns/c")
	}
}

func TestCreateKeepsFinalizersAndFields(t *testing.T) {
	const finalizers = `"finalizers":["a.example.com/x","plug.thole.dev/ctl"]`
	for _, kind := range []string{"Child", "Other"} {
		w, s := withChildren(t)
		ref := abi.Ref{APIVersion: "v1", Kind: kind, Namespace: "ns", Name: "c"}
		result := func(data string, option func(*abi.Apply)) {
			s.applies(kind, data, option)
			s.result.Apply[0].Object = []byte(strings.Replace(string(s.result.Apply[0].Object), `"metadata":{`, `"metadata":{`+finalizers+`,`, 1))
			w.Reconcile("ns/one").ExpectReady()
		}
		expect := func(wantFinalizers, wantData string) {
			t.Helper()
			if got := get(t, w, ref); fmt.Sprint(got.Metadata.Finalizers) != wantFinalizers || fmt.Sprint(got.Data) != wantData {
				t.Errorf("%s: finalizers %q and data %v, want %s and %s", kind, got.Metadata.Finalizers, got.Data, wantFinalizers, wantData)
			}
		}
		result(`"data":{"k":"1","kept":"1"}`, create)
		expect("[a.example.com/x]", "map[k:1 kept:1]")
		w.Change(ref, `{"metadata":{"finalizers":null}}`)
		result(`"data":{"k":"1","kept":"1"}`, create)
		result(`"data":{"k":"2","more":"1"}`, plain)
		expect("[]", "map[k:2 kept:1 more:1]")
		result(`"data":{"k":"2"}`, plain)
		expect("[]", "map[k:2 kept:1]")
	}
}

func TestReplaceCreatesAnewWhatCannotBeChanged(t *testing.T) {
	w, s := withChildren(t)
	w.Immutable(child, "spec.fixed")
	s.applies("Child", `"spec":{"fixed":1,"free":1}`, replace)
	w.Reconcile("ns/one").ExpectReady()
	ref := child.Ref("ns", "c")
	first := get(t, w, ref).Metadata.UID

	s.applies("Child", `"spec":{"fixed":1,"free":2}`, replace)
	w.Reconcile("ns/one").ExpectWrites("apply v1 Child ns/c")
	s.applies("Child", `"spec":{"fixed":2,"free":2}`, plain)
	w.Reconcile("ns/one").ExpectRetry("Invalid")
	s.applies("Child", `"spec":{"fixed":2,"free":2}`, replace)
	w.Reconcile("ns/one").ExpectWrites("delete v1 Child ns/c", "apply v1 Child ns/c", "status")
	second := get(t, w, ref).Metadata.UID
	if first == second {
		t.Error("the object is not another one")
	}

	w.Change(ref, `{"metadata":{"finalizers":["other.dev/x"]}}`)
	s.applies("Child", `"spec":{"fixed":3}`, replace)
	w.Reconcile("ns/one").ExpectWaiting("Replacing")
	w.Reconcile("ns/one").ExpectWaiting("Replacing").ExpectNoWrites()
	w.Change(ref, `{"metadata":{"finalizers":null}}`)
	w.Reconcile("ns/one").ExpectReady()

	w.Change(ref, `{"spec":{"fixed":9}}`)
	w.Reconcile("ns/one").ExpectRetry("Invalid") // made by the same intent
	w.Delete(ref)
	s.applies("Child", `"spec":{"fixed":3}`, create)
	w.Reconcile("ns/one").ExpectReady()
	w.Change(ref, `{"spec":{"fixed":9}}`)
	s.applies("Child", `"spec":{"fixed":3}`, replace)
	w.Reconcile("ns/one").ExpectRetry("Invalid") // so is what it has created
	w.Change(ref, `{"metadata":{"ownerReferences":null}}`)
	s.applies("Child", `"spec":{"fixed":4}`, func(a *abi.Apply) { a.Replace, a.Adopt = true, true })
	w.Reconcile("ns/one").ExpectRetry("Invalid") // not the primary's
	s.applies("Other", `"spec":{}`, replace)
	w.Reconcile("ns/one").ExpectRetry("InvalidIntent")
}

func TestOptionsOfDeletes(t *testing.T) {
	w, s := withChildren(t)
	ref := w.Create(`{"apiVersion":"v1","kind":"Other","metadata":{"namespace":"ns","name":"c"}}`)
	dependent := w.Create(fmt.Sprintf(`{"apiVersion":"v1","kind":"Wide","metadata":{"namespace":"ns","name":"d",
		"ownerReferences":[{"apiVersion":"v1","kind":"Other","name":"c","uid":%q,"controller":true}]}}`, ref.UID))
	version := get(t, w, ref).Metadata.ResourceVersion
	s.result.Delete = []abi.Delete{{Ref: other.Ref("", "c"), ResourceVersion: version, Propagation: abi.PropagationOrphan, GracePeriodSeconds: new(int64)}}

	w.Change(ref, `{"data":{"k":"changed"}}`)
	if run := w.Reconcile("ns/one").ExpectRetry("Conflict"); run.decision.Tries.Attempt != 0 || !w.Exists(ref) {
		t.Errorf("a version that has changed is an attempt, or no precondition: %+v", run.decision.Tries)
	}
	s.result.Delete[0].ResourceVersion = get(t, w, ref).Metadata.ResourceVersion
	w.Reconcile("ns/one").ExpectReady()
	w.ExpectGone(ref)
	if m := get(t, w, dependent).Metadata; len(m.OwnerReferences) != 0 {
		t.Errorf("the dependent has the owners %+v", m.OwnerReferences)
	}
	w.Reconcile("ns/one").ExpectReady()
}
