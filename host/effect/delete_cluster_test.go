package effect

import (
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
)

func remove(uid string) Intents {
	return Intents{Delete: []abi.Ref{{APIVersion: "v1", Kind: "ConfigMap", Name: "c", UID: uid}}}
}

func TestDeleteAChild(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(configMap), nil)
	w.intents(target, apply(configObject, "v"))
	child := w.seen(configMap, "c")
	w.wire.take()

	report := w.intents(target, remove(""))
	path := "/api/v1/namespaces/" + w.ns + "/configmaps/c"
	sent := w.expectSent("DELETE " + path)
	want := `{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":"` + string(child.UID) + `"},"propagationPolicy":"Background"}`
	if sent[0].body != want || w.live(configMap, "c") != nil {
		t.Errorf("sent %s", sent[0].body)
	}
	if len(report.Writes) != 1 || report.Writes[0].Verb != "delete" || report.Writes[0].UID != child.UID {
		t.Errorf("reported %+v", report.Writes)
	}
	// Not there any more is as wanted, and known.
	w.seen(configMap, "c")
	w.intents(target, remove(""))
	w.expectSent()
	w.start()
	for range 2 {
		w.intents(target, remove(""))
	}
	w.expectSent("GET " + path)
}

func TestDeleteWaitsForNobody(t *testing.T) {
	w := newCluster(t)
	target := w.owner(nil, list(configMap))
	w.create(configMap, `{"metadata":{"name":"c","finalizers":["other.dev/x"]}}`)
	w.seen(configMap, "c")
	report := w.intents(target, remove(""))
	if got := w.seen(configMap, "c"); !got.Deleting() || len(report.Writes) != 1 || report.Writes[0].ResourceVersion != got.ResourceVersion {
		t.Errorf("reported %+v, the object is %s", report.Writes, got.Raw)
	}
	w.wire.take()
	w.intents(target, remove(""))
	w.expectSent()
	w.edit(configMap, "c", "", `{"metadata":{"finalizers":null}}`)
}

func TestDeleteOnlyTheObjectThatIsMeant(t *testing.T) {
	w := newCluster(t)
	target := w.owner(nil, list(configMap))
	old := w.create(configMap, `{"metadata":{"name":"c"}}`)
	w.seen(configMap, "c")
	w.remove(configMap, "c")
	w.create(configMap, `{"metadata":{"name":"c"}}`)

	_, failure := w.Intents(t.Context(), target, remove(""))
	if failure == nil || !failure.Conflict {
		t.Fatalf("got %+v", failure)
	}
	// If the UID was asked for, the object is gone as wanted.
	w.intents(target, remove(string(old.UID)))
	w.seen(configMap, "c")
	w.intents(target, remove(string(old.UID)))
	if w.live(configMap, "c") == nil {
		t.Error("deleted the successor")
	}
	w.intents(target, remove(string(w.live(configMap, "c").UID)))
	if w.live(configMap, "c") != nil {
		t.Error("not deleted")
	}
}

func TestDeleteOfWhatIsNotOurs(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(configMap), nil)
	w.create(configMap, `{"metadata":{"name":"c"}}`)
	_, failure := w.Intents(t.Context(), target, remove(""))
	if failure == nil || failure.Class != abi.ClassDenied || failure.Reason != reasonUncontrols || !strings.Contains(failure.Message, "writes") {
		t.Errorf("got %+v", failure)
	}
	if w.live(configMap, "c") == nil {
		t.Error("deleted")
	}
}

func TestDeleteThePrimary(t *testing.T) {
	w := newCluster(t)
	target := w.owner(nil, list(widget))
	w.intents(target, Intents{Delete: []abi.Ref{target.Object.Ref()}})
	if w.live(widget, "w") != nil {
		t.Error("not deleted")
	}
}
