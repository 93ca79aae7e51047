package sdktest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/sdk"
)

// adoption is a world with an object in one of the states of [tck.AdoptionRules].
type adoption struct {
	*World
	ref sdk.Ref // of the object
}

func (a *adoption) child(metadata ...string) {
	all := append([]string{`"name":"c"`, `"namespace":"ns"`}, metadata...)
	a.Create(`{"apiVersion":"v1","kind":"Child","metadata":{` + strings.Join(all, ",") + `},"data":{"theirs":"1"}}`)
}

func owners(all ...string) string { return `"ownerReferences":[` + strings.Join(all, ",") + `]` }

// owner returns a reference to the primary, which is the first object, or to another one.
func owner(uid, more string) string {
	return fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Thing","name":"one","uid":%q%s}`, uid, more)
}

const (
	controls = `,"controller":true,"blockOwnerDeletion":true`
	one      = "uid-1"
)

// terminate deletes the object, which a finalizer holds.
func (a *adoption) terminate() {
	a.Change(a.ref, `{"metadata":{"finalizers":["test/hold"]}}`)
	a.Delete(a.ref)
}

var adoptionStates = map[string]func(*adoption){
	"does not exist":               func(*adoption) {},
	"is controlled by the primary": func(a *adoption) { a.child(owners(owner(one, controls))) },
	"is controlled by the primary, and is being deleted": func(a *adoption) {
		a.child(owners(owner(one, controls)))
		a.terminate()
	},
	"is controlled by the primary, which is being deleted": func(a *adoption) {
		a.child(owners(owner(one, controls)))
		a.Delete(theOne)
	},
	"is controlled by another object": func(a *adoption) { a.child(owners(owner("other", controls))) },
	"is controlled by another object, and refers to the primary as an owner": func(a *adoption) {
		a.child(owners(owner("other", controls), owner(one, "")))
	},
	"has no controller": func(a *adoption) { a.child() },
	"has no controller, and refers to the primary as an owner": func(a *adoption) {
		a.child(owners(owner("other", ""), owner(one, `,"controller":false`), owner("third", "")))
	},
	"has no controller, and has other owners": func(a *adoption) { a.child(owners(owner("other", `,"controller":false`))) },
	"has no controller, and is being deleted": func(a *adoption) {
		a.child()
		a.terminate()
	},
	"has no controller, and the primary is being deleted": func(a *adoption) {
		a.child()
		a.Delete(theOne)
	},
	"has no controller, and is not followed (`managed`)": func(a *adoption) { a.child() },
	"owns the primary": func(a *adoption) {
		a.child()
		a.Change(theOne, fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Child","name":"c","uid":%q}]}}`, a.mustExist("", a.ref).meta.UID))
	},
	"is the primary": func(a *adoption) { a.ref = theOne },
}

// adoptionIntent returns a result with an intent of the table.
func adoptionIntent(name string, ref sdk.Ref) abi.Result {
	object := func(fields string) []byte {
		return fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{"name":%q}%s}`, ref.APIVersion, ref.Kind, ref.Name, fields)
	}
	out := abi.Result{Result: abi.OutcomeSuccess}
	switch name {
	case "apply":
		out.Apply = []abi.Apply{{Object: object(`,"data":{"ours":"1"}`)}}
	case "create":
		out.Apply = []abi.Apply{{Object: object(`,"data":{"ours":"1"}`), Create: true}}
	case "apply with `adopt`":
		out.Apply = []abi.Apply{{Object: object(`,"data":{"ours":"1"}`), Adopt: true}}
	case "`adopt` alone":
		out.Apply = []abi.Apply{{Object: object(""), Adopt: true}}
	case "release":
		out.Release = []abi.Ref{ref}
	case "delete":
		out.Delete = []abi.Delete{{Ref: ref}}
	}
	return out
}

// state returns the object without what every write changes; "" if it does not exist.
func (a *adoption) state() string {
	o := a.objects[idOf(a.ref)]
	if o == nil {
		return ""
	}
	return string(a.merge(o.raw, []byte(`{"status":null,"metadata":{"resourceVersion":null}}`)))
}

// became describes what a run has made of the object, in the words of the table.
func (a *adoption) became(before string, run *Run) string {
	after := a.state()
	isChild := func(text string) bool {
		o, err := parse([]byte(text))
		return err == nil && o.meta.ControlledBy(one)
	}
	data, _ := rawjson.Lookup([]byte(after), "data")
	switch {
	case after == before && run.Class != "":
		return "`" + run.Reason + "`"
	case after == before:
		return "nothing"
	case run.Class != "":
		return "changed by a run that failed: " + run.Reason
	case before == "" && isChild(after):
		return "created"
	case after == "", strings.Contains(after, "deletionTimestamp") && !strings.Contains(before, "deletionTimestamp"):
		return "deleted"
	case !isChild(before) && isChild(after):
		return "adopted"
	case isChild(before) && isChild(after) && rawjson.Equal(data, []byte(`{"ours":"1","theirs":"1"}`)):
		return "applied"
	case strings.Contains(before, `"uid":"uid-1"`) && !strings.Contains(after, `"uid":"uid-1"`):
		return "released"
	}
	return "changed: " + after
}

func TestAdoptionAndReleaseAreAsSpecified(t *testing.T) {
	made := map[string]bool{}
	for _, rule := range tck.AdoptionRules() {
		t.Run(rule.State+"/"+rule.Intent, func(t *testing.T) {
			made[rule.State] = true
			s := newScript()
			s.controller.Owns = abi.AllOf(child, thing)
			s.controller.Finalizer = rule.State != "is the primary"
			s.managed = strings.Contains(rule.State, "not followed")
			a := &adoption{World: NewWith(t, s), ref: child.Ref("ns", "c")}
			a.Create(`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"namespace":"ns","name":"one","finalizers":["plug.thole.dev/ctl","test/hold"]}}`)
			state := adoptionStates[rule.State]
			if state == nil {
				t.Fatal("unknown state")
			}
			state(a)
			before := a.state()
			s.result = adoptionIntent(rule.Intent, a.ref)
			run := a.Reconcile("ns/one")
			if got := a.became(before, run); got != rule.Outcome {
				t.Fatalf("%s, want %s: %s", got, rule.Outcome, run.Message)
			}
			if slices.Contains([]string{"`AlreadyExists`", "`NotFound`", "`BeingDeleted`"}, rule.Outcome) {
				run.ExpectClass(abi.ClassRetry)
			} else if strings.HasPrefix(rule.Outcome, "`") {
				run.ExpectClass(abi.ClassDenied)
			}
			if want := rule.Intent + " v1 Child ns/c"; rule.Outcome == "released" && !slices.Contains(run.Writes, want) {
				t.Errorf("wrote %q", run.Writes)
			}
		})
	}
	for state := range adoptionStates {
		if !made[state] {
			t.Errorf("%q is not a state of the table", state)
		}
	}
}

func TestAdoptionAndReleaseKeepOtherOwners(t *testing.T) {
	s := newScript()
	s.managed = true
	s.controller.Reads = abi.AllOf(child)
	a := &adoption{World: NewWith(t, s), ref: child.Ref("ns", "c")}
	a.Create(`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"namespace":"ns","name":"one"}}`)
	other, third := owner("other", `,"controller":false`), owner("third", "")
	a.child(owners(other, owner(one, ""), third))
	expect := func(want, label string) {
		t.Helper()
		o := a.mustExist("get", a.ref)
		list, _ := json.Marshal(references(o))
		var got []string
		for _, reference := range references(o) {
			got = append(got, string(reference))
		}
		if strings.Join(got, ",") != want || o.meta.Labels[abi.LabelManagedBy] != label {
			t.Errorf("got %s %s, labels %v", got, list, o.meta.Labels)
		}
	}
	for _, intent := range []string{"`adopt` alone", "apply with `adopt`"} {
		s.result = adoptionIntent(intent, a.ref)
		a.Reconcile("ns/one").ExpectSuccess()
		ours := owner(one, controls)
		if intent == "`adopt` alone" {
			expect(other+","+ours+","+third, "plug")
		} else {
			expect(other+","+third+","+ours, "plug")
		}
		a.Reconcile("ns/one").ExpectSuccess().ExpectNoWrites()
		s.result = adoptionIntent("release", a.ref)
		a.Reconcile("ns/one").ExpectSuccess()
		expect(other+","+third, "")
		a.Reconcile("ns/one").ExpectSuccess().ExpectNoWrites()
	}
}

func TestTheUIDOfAnAdoptionAndAReleaseIsAPrecondition(t *testing.T) {
	w, s := scripted(t)
	ref := w.Create(`{"apiVersion":"v1","kind":"Child","metadata":{"name":"c","namespace":"ns"}}`)
	adopt := func(uid string) {
		s.result = adoptionIntent("`adopt` alone", ref)
		s.result.Apply[0].Object = fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Child","metadata":{"name":"c","uid":%q,"creationTimestamp":null},"status":{}}`, uid)
	}
	adopt("another")
	w.Reconcile("ns/one").ExpectRetry("NotFound")
	adopt(ref.UID)
	w.Reconcile("ns/one").ExpectWrites("apply v1 Child ns/c", "status")
	s.result = adoptionIntent("release", ref)
	s.result.Release[0].UID = "another"
	w.Reconcile("ns/one").ExpectSuccess().ExpectNoWrites()
	s.result.Release[0].UID = ref.UID
	w.Reconcile("ns/one").ExpectWrites("release v1 Child ns/c")
	s.result = adoptionIntent("release", ref)
	s.result.Release = append(s.result.Release, ref)
	w.Reconcile("ns/one").ExpectClass(abi.ClassABI)
	s.result.Release = []abi.Ref{other.Ref("ns", "o")}
	if run := w.Reconcile("ns/one").ExpectClass(abi.ClassDenied); run.Reason != "OutOfScope" {
		t.Errorf("got %s", run.Reason)
	}
}
