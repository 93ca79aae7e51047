package effect

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/host/object"
)

// adoption is a primary and an object in one of the states of [tck.AdoptionRules].
type adoption struct {
	*world
	name   string // of both
	target Target
	of     object.Resource // the kind of the object
}

// reference returns an owner reference in JSON. more are further members of it.
func reference(o *object.Object, more string) string {
	return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"name":%q,"uid":%q%s}`, o.Kind.APIVersion, o.Kind.Kind, o.Name, o.UID, more)
}

// child creates the object. Its kind has defaults for nothing, so that it shows what was written.
func (a *adoption) child(metadata string) {
	a.Helper()
	a.create(configMap, fmt.Sprintf(`{"metadata":{"name":%q%s},"data":{"theirs":"1"}}`, a.name, metadata))
}

const controls = `,"controller":true,"blockOwnerDeletion":true`

// childOf creates an object with these owner references.
func (a *adoption) childOf(references ...string) {
	a.child(`,"ownerReferences":[` + strings.Join(references, ",") + `]`)
}

// terminating deletes an object that a finalizer holds.
func (a *adoption) terminating(r object.Resource) *object.Object {
	a.edit(r, a.name, "", `{"metadata":{"finalizers":["test.thole.dev/hold"]}}`)
	a.remove(r, a.name)
	return a.seen(r, a.name)
}

// adoptionStates makes each state of the table.
var adoptionStates = map[string]func(*adoption){
	"does not exist":               func(*adoption) {},
	"is controlled by the primary": func(a *adoption) { a.childOf(reference(a.target.Object, controls)) },
	"is controlled by the primary, and is being deleted": func(a *adoption) {
		a.childOf(reference(a.target.Object, controls))
		a.terminating(configMap)
	},
	"is controlled by the primary, which is being deleted": func(a *adoption) {
		a.childOf(reference(a.target.Object, controls))
		a.target.Object = a.terminating(widget)
	},
	"is controlled by another object": func(a *adoption) { a.childOf(reference(a.other(), controls)) },
	"is controlled by another object, and refers to the primary as an owner": func(a *adoption) {
		a.childOf(reference(a.other(), controls), reference(a.target.Object, ""))
	},
	"has no controller": func(a *adoption) { a.child("") },
	"has no controller, and refers to the primary as an owner": func(a *adoption) {
		a.childOf(reference(a.other(), `,"blockOwnerDeletion":true`), reference(a.target.Object, `,"controller":false`), reference(a.other(), ``))
	},
	"has no controller, and has other owners": func(a *adoption) {
		a.childOf(reference(a.other(), `,"controller":false,"blockOwnerDeletion":true`), reference(a.other(), ``))
	},
	"has no controller, and is being deleted": func(a *adoption) {
		a.child("")
		a.terminating(configMap)
	},
	"has no controller, and the primary is being deleted": func(a *adoption) {
		a.child("")
		a.target.Object = a.terminating(widget)
	},
	"has no controller, and is not followed (`managed`)": func(a *adoption) {
		a.child("")
		a.store.followManaged(configMap)
	},
	"owns the primary": func(a *adoption) {
		a.child("")
		owner := a.live(configMap, a.name)
		a.target.Object = a.edit(widget, a.name, "", `{"metadata":{"ownerReferences":[`+reference(owner, "")+`]}}`)
	},
	"is the primary": func(a *adoption) {
		a.of = widget
		a.seen(widget, a.name)
	},
}

// other creates a Widget that is not the primary.
func (a *adoption) other() *object.Object {
	return a.create(widget, `{"metadata":{"generateName":"other-"}}`)
}

// intent returns the result with one of the intents of the table.
func (a *adoption) intent(name string) *abi.Result {
	a.Helper()
	ref := a.of.Kind.Ref("", a.name)
	fields, bare := `{"apiVersion":%q,"kind":%q,"metadata":{"name":%q},"data":{"ours":"1"}}`, `{"apiVersion":%q,"kind":%q,"metadata":{"name":%q}}`
	if a.of == widget {
		fields = `{"apiVersion":%q,"kind":%q,"metadata":{"name":%q},"spec":{"size":9}}`
	}
	switch name {
	case "apply":
		return apply(fields, ref.APIVersion, ref.Kind, ref.Name)
	case "create":
		in := apply(fields, ref.APIVersion, ref.Kind, ref.Name)
		in.Apply[0].Create = true
		return in
	case "apply with `adopt`":
		return adopt(apply(fields, ref.APIVersion, ref.Kind, ref.Name))
	case "`adopt` alone":
		return adopt(apply(bare, ref.APIVersion, ref.Kind, ref.Name))
	case "release":
		return &abi.Result{Release: []abi.Ref{ref}}
	case "delete":
		return &abi.Result{Delete: []abi.Delete{{Ref: ref}}}
	}
	a.Fatalf("unknown intent %s", name)
	return nil
}

// outcome describes what became of the object, in the words of the table.
func (a *adoption) outcome(before *object.Object, failure *Failure) string {
	after := a.live(a.of, a.name)
	isChild := func(o *object.Object) bool { return o.Controller() != nil && o.Controller().UID == a.target.Object.UID }
	switch {
	case failure != nil && (after == nil) == (before == nil) && (after == nil || after.IsStateOf(before)):
		return "`" + failure.Reason + "`"
	case failure != nil:
		return fmt.Sprintf("changed although %+v", failure)
	case before == nil && after == nil, before != nil && after != nil && after.IsStateOf(before):
		return "nothing"
	case before == nil && isChild(after):
		return "created"
	case after == nil:
		return "deleted"
	case !isChild(before) && isChild(after):
		return "adopted"
	case isChild(before) && isChild(after) && field(after, "data") == `{"ours":"1","theirs":"1"}`:
		return "applied"
	case len(a.referencesTo(after)) == 0 && len(a.referencesTo(before)) > 0:
		return "released"
	}
	return "changed: " + string(after.Raw)
}

// referencesTo returns the references of an object to the primary.
func (a *adoption) referencesTo(o *object.Object) (all []string) {
	references, _ := referencesOf(o)
	for i, r := range references {
		if o.OwnerReferences[i].UID == a.target.Object.UID {
			all = append(all, string(r))
		}
	}
	return all
}

// othersOf returns the references of an object to other owners.
func (a *adoption) othersOf(o *object.Object) (all []string) {
	references, _ := referencesOf(o)
	for _, r := range references {
		if !slices.Contains(a.referencesTo(o), string(r)) {
			all = append(all, string(r))
		}
	}
	return all
}

// expectTheRest checks that nothing was changed but what the outcome says.
func (a *adoption) expectTheRest(rule tck.AdoptionRule, before *object.Object) {
	a.Helper()
	after := a.live(a.of, a.name)
	if before == nil || after == nil {
		return
	}
	if got, want := a.othersOf(after), a.othersOf(before); !slices.Equal(got, want) {
		a.Errorf("other references are %s, were %s", got, want)
	}
	alone := rule.Intent == "`adopt` alone" || rule.Intent == "release"
	if alone && field(after, "data") != field(before, "data") {
		a.Errorf("data is %s", field(after, "data"))
	}
	if _, annotated := after.Annotations[AppliedAnnotation]; alone && annotated {
		a.Error("it looks as if it was applied")
	}
	if rule.Outcome == "adopted" && strings.Contains(rule.State, "refers to the primary") {
		if got, want := a.referencesTo(after), reference(a.target.Object, controls); len(got) != 1 || !rawjson.Equal([]byte(got[0]), []byte(want)) {
			a.Errorf("the reference is %s", got)
		}
	}
}

// The cache has the object, or is behind.
func TestAdoptionAndReleaseAreAsSpecified(t *testing.T) {
	made := map[string]bool{}
	for _, behind := range []bool{false, true} {
		w := newCluster(t)
		for i, rule := range tck.AdoptionRules() {
			t.Run(fmt.Sprintf("%s/%s/behind %v", rule.State, rule.Intent, behind), func(t *testing.T) {
				made[rule.State] = true
				w.T, w.store.selected = t, nil
				a := &adoption{world: w, name: fmt.Sprint("a", i), of: configMap}
				a.target = Target{Controller: controller(list(configMap, widget), nil), Object: w.create(widget, fmt.Sprintf(`{"metadata":{"name":%q}}`, a.name))}
				state := adoptionStates[rule.State]
				if state == nil {
					t.Fatal("unknown state")
				}
				state(a)
				before := a.seen(a.of, a.name)
				if behind {
					w.store.drop(a.of.Kind, w.key(a.of, a.name))
				}
				w.wire.take()
				_, failure := w.PerformIntents(t.Context(), a.target, a.intent(rule.Intent))
				if got := a.outcome(before, failure); got != rule.Outcome {
					t.Fatalf("%s, want %s (%+v)", got, rule.Outcome, failure)
				}
				a.expectTheRest(rule, before)
				if sent := w.wire.take(); len(sent) > 7 {
					t.Errorf("sent %v", sent)
				}
			})
		}
	}
	for state := range adoptionStates {
		if !made[state] {
			t.Errorf("%q is not a state of the table", state)
		}
	}
}
