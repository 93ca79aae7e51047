package dispatch

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/object"
)

// ledgerModel is what a controller with the ledger, which asks for objects that are gone, should have given the plugin
// of a [world]. world.mu guards it; a nil model has no opinion.
type ledgerModel struct {
	given   map[string]given     // by key: to the last call
	handled map[types.UID]string // what the last run that ended well was given
	cleaned map[types.UID]bool   // the cleanup has succeeded, but perhaps for the finalizer
	went    map[types.UID]bool   // the informer has shown that it went
	done    map[types.UID]bool   // a run for the object that is gone has ended well
	wrong   []string
}

type given struct {
	uid  types.UID
	text string
	gone bool
}

func (w *world) keepLedger() {
	w.model = &ledgerModel{
		given: map[string]given{}, handled: map[types.UID]string{},
		cleaned: map[types.UID]bool{}, went: map[types.UID]bool{}, done: map[types.UID]bool{},
	}
	rev := w.c.Revision()
	rev.Controller.Gone, w.c.Hooks = true, []Hooks{{}, ledger()}
}

// called compares a request with what it should have. An object that is gone may have been
// forgotten before its event.
func (m *ledgerModel) called(primary *object.Object, request *abi.Request) {
	if m == nil {
		return
	}
	add := func(format string, args ...any) {
		m.wrong = append(m.wrong, fmt.Sprintf("%s: ", primary.UID)+fmt.Sprintf(format, args...))
	}
	m.given[primary.Key().String()] = given{primary.UID, string(request.Object), request.Gone}
	handled, ever := m.handled[primary.UID]
	e := entryOf(request)
	old, kind := []byte(e.Old), e.Type
	if string(old) == "null" {
		old = nil
	}
	if old != nil && !rawjson.Equal(old, []byte(handled)) || old == nil && ever && !request.Gone {
		add("old is %s, want %s", old, handled)
	}
	if kind == "created" && ever || (kind == "deleted") != (request.Gone || primary.Deleting()) {
		add("the entry is %s of one that was handled: %t", kind, ever)
	}
	switch {
	case !request.Gone:
	case m.cleaned[primary.UID], m.done[primary.UID], !m.went[primary.UID]:
		add("a run comes for an object that is gone: cleaned up %t, done %t, went %t", m.cleaned[primary.UID], m.done[primary.UID], m.went[primary.UID])
	}
}

// ended notes the end of the run of the last call.
func (m *ledgerModel) ended(e events.RunEnded) {
	if m == nil || e.Failure.Class != abi.ClassNone {
		return
	}
	switch g := m.given[e.Run.Object]; {
	case g.gone:
		m.done[g.uid] = true
	default:
		m.handled[g.uid] = g.text
	}
}

// shows notes what the informer shows of an object; either may be nil.
func (m *ledgerModel) shows(before, now *object.Object) {
	if m != nil && before != nil && before.Kind == widget && (now == nil || now.UID != before.UID) {
		m.went[before.UID] = true
	}
}

// cleansUp notes that a finalizer is removed.
func (w *world) cleansUp(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.model != nil {
		w.model.cleaned[uid] = true
	}
}

// problems returns what is wrong when nothing happens any more. world.mu and Controller.mu are
// held.
func (m *ledgerModel) problems(w *world) (all []string) {
	if m == nil {
		return nil
	}
	all = append(all, m.wrong...)
	for uid := range m.went {
		if !m.cleaned[uid] && !m.done[uid] {
			all = append(all, fmt.Sprintf("no run came for %s, which is gone", uid))
		}
	}
	for of, e := range w.objects {
		if of.kind == gadget && m.went[types.UID(e.owner.uid)] {
			all = append(all, fmt.Sprintf("%s of %s is left, which is gone", of.key, e.owner.uid))
		}
	}
	if n := len(w.c.goneObjects.byKey) + w.c.goneObjects.bytes + len(w.c.created); n > 0 {
		all = append(all, fmt.Sprintf("left: %v, created %v", w.c.goneObjects, w.c.created))
	}
	for key, left := range w.c.cleanedUp {
		for uid := range m.went {
			if slices.Contains(left, object.HashOf(string(uid))) {
				all = append(all, fmt.Sprintf("the cleanup of %s %s is remembered", key, uid))
			}
		}
	}
	return all
}

// Whatever fails, and however late the informer is: a capability has the state of the object, and its hooks are told
// how runs end, and each object that goes without a cleanup has its run, once.
func TestTheLedgerIsRight(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := drawPlan(r, "remove the finalizer")
		p.ledger, p.finalizer = true, rapid.Bool().Draw(r, "finalizer")
		var problems []string
		synctest.Test(t, func(*testing.T) { problems = p.run() })
		if len(problems) > 0 {
			r.Fatal(strings.Join(problems, "\n"))
		}
	})
}
