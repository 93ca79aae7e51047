package effect

import (
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
)

const aPod = `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"m","image":"i"}]}}`

// withStatusOf returns entries that allow to patch the status of a kind.
func withStatusOf(kind string) func(*Config) {
	return func(c *Config) { c.Allow[0].Kinds = []string{"Pod", kind} }
}

func TestObservedGenerationOfBuiltInKindsIsWrittenIfThePolicyLetsIt(t *testing.T) {
	c := controller(nil, nil)
	w := newCluster(t)
	o := w.create(pod, aPod)
	for _, name := range []string{"Service", "Pod/status"} {
		allowed := name == "Pod/status"
		w.start(withStatusOf(name))
		target := Target{Controller: c, Object: w.live(pod, "p")}
		want := ready("True", 1)
		want.HandledRequest = "now"
		w.wire.take()
		for range 2 {
			w.status(&target, want)
		}
		if sent := w.wire.take(); (len(sent) == 1) != allowed || (field(target.Object, "status", "observedGeneration") == "1") != allowed {
			t.Errorf("allowed %s: sent %v, status is %s", name, sent, field(target.Object, "status"))
		}
	}
	if got := field(w.live(pod, "p"), "status"); strings.Contains(got, `"type":"Ready"`) || strings.Contains(got, "lastHandled") || o.Generation != 1 {
		t.Errorf("the status is %s", got)
	}
}

func TestObservedGenerationIsSentOnceToABuiltInKindWithoutIt(t *testing.T) {
	w := newCluster(t)
	for _, name := range []string{"a", "b"} {
		s := w.create(service, `{"metadata":{"name":"`+name+`"},"spec":{"ports":[{"port":80}]}}`)
		w.wire.take()
		report, failure := w.WriteStatus(t.Context(), Target{Controller: controller(nil, nil), Object: s}, ready("True", 1))
		if len(report.Writes) != 0 || failure != nil {
			t.Errorf("got %+v, %v", report, failure)
		}
		if sent := w.wire.take(); len(sent) > 1 || name == "b" && len(sent) > 0 {
			t.Errorf("%s: sent %v", name, sent)
		}
	}
	w.logs.ExpectNone(t)
}

// guestOwned is the controller of Pods whose guest writes the whole status.
func guestOwned() *abi.Controller {
	return &abi.Controller{Name: "main", For: pod.Kind.All(), StatusOwner: abi.StatusOwnerGuest}
}

func TestAStatusOfTheGuestIsWrittenAsItIs(t *testing.T) {
	w := newCluster(t)
	target := Target{Controller: guestOwned(), Object: w.create(pod, aPod)}
	w.wire.take()
	want := ready("True", 1)
	want.Given, want.HandledRequest = target.Object, "now"
	if _, wrote := w.status(&target, want); wrote || len(w.wire.take()) != 0 {
		t.Error("the host wrote its part")
	}
	want.Patch = []byte(`{"observedGeneration":1,"conditions":[{"type":"Mine","status":"True","reason":"FailedCreate"}]}`)
	if _, wrote := w.status(&target, want); !wrote || len(w.wire.take()) != 1 {
		t.Error("the status was not written")
	}
	got := field(target.Object, "status")
	if !strings.Contains(got, `"Mine"`) || strings.Contains(got, `"type":"Ready"`) || !strings.Contains(got, `"observedGeneration":1`) {
		t.Errorf("the status is %s", got)
	}
}

// The guest has computed the list of conditions from those that it was given.
func TestConditionsThatOthersHaveChangedAreNotReplaced(t *testing.T) {
	for name, c := range map[string]struct {
		foreign  string
		patch    string
		conflict bool
	}{
		"a condition of somebody else": {`{"status":{"conditions":[{"type":"Theirs","status":"True"}]}}`, `{"conditions":[{"type":"Mine","status":"True"}]}`, true},
		"what the guest wants, too":    {`{"status":{"conditions":[{"type":"Mine","status":"True"}]}}`, `{"message":"m","conditions":[{"type":"Mine","status":"True","lastProbeTime":null,"lastTransitionTime":null}]}`, false},
		"another part of the status":   {`{"status":{"message":"m"}}`, `{"conditions":[{"type":"Mine","status":"True"}]}`, false},
		"no conditions of the guest":   {`{"status":{"conditions":[{"type":"Theirs","status":"True"}]}}`, `{"observedGeneration":1}`, false},
	} {
		for _, when := range []string{"before the first request", "after it was read"} {
			t.Run(name+" "+when, func(t *testing.T) {
				w := newCluster(t)
				given := w.create(pod, aPod)
				target := Target{Controller: guestOwned(), Object: given}
				edited := w.edit(pod, "p", "status", c.foreign)
				if when == "after it was read" { // by the reply to a patch of the primary
					target.Object = edited
				}
				_, failure := w.WriteStatus(t.Context(), target, Status{Patch: []byte(c.patch), Given: given})
				if (failure != nil) != c.conflict || failure != nil && (!failure.Conflict || !strings.Contains(failure.Message, "conditions")) {
					t.Errorf("got %+v", failure)
				}
				status := field(w.live(pod, "p"), "status")
				if theirs := strings.Contains(c.foreign, "Theirs"); strings.Contains(status, "Theirs") != theirs || strings.Contains(status, "Mine") == c.conflict && strings.Contains(c.patch, "Mine") {
					t.Errorf("the status is %s", status)
				}
			})
		}
	}
}
