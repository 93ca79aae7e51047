package effect

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/host/object"
)

// ownersModel is an object with random owners, which the primary and others change in turn.
type ownersModel struct {
	*adoption
	*rand.Rand
	others []*object.Object
}

// disturb lets somebody else replace the owner references: some of the primary and of others, of
// which at most one is the controller.
func (m *ownersModel) disturb() {
	var all []string
	controller := m.IntN(6) // of no owner in half of the cases
	for i, owner := range append(slices.Clone(m.others), m.target.Object) {
		switch {
		case i == controller:
			all = append(all, reference(owner, controls))
		case m.IntN(2) == 0:
			all = append(all, reference(owner, []string{"", `,"controller":false`, `,"blockOwnerDeletion":false`}[m.IntN(3)]))
		}
	}
	m.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	m.edit(configMap, m.name, "", `{"metadata":{"ownerReferences":[`+strings.Join(all, ",")+`]}}`)
}

// wants returns what the table says of an intent for an object.
func (m *ownersModel) wants(intent string, o *object.Object) string {
	state := "has no controller"
	switch c := o.Controller(); {
	case c != nil && c.UID == m.target.Object.UID:
		state = "is controlled by the primary"
	case c != nil:
		state = "is controlled by another object"
	case len(m.referencesTo(o)) > 0:
		state = "has no controller, and refers to the primary as an owner"
	}
	for _, rule := range tck.AdoptionRules() {
		if rule.State == state && rule.Intent == intent {
			return rule.Outcome
		}
	}
	m.Fatalf("no rule for %q of an object that %q", intent, state)
	return ""
}

// Whatever the cache shows, the references of others keep their bytes, and an object of another
// controller is not changed. If it shows the object, the table says what happens.
func TestRandomOwnersAreAdoptedAndReleasedAsSpecified(t *testing.T) {
	w := newCluster(t)
	for seed := range uint64(6) {
		m := &ownersModel{Rand: rand.New(rand.NewPCG(seed, 0)), adoption: &adoption{world: w, name: fmt.Sprint("m", seed), of: configMap}}
		m.target = Target{Controller: controller(list(configMap), nil), Object: w.create(widget, fmt.Sprintf(`{"metadata":{"name":%q}}`, m.name))}
		m.others = []*object.Object{m.other(), m.other()}
		m.child("")
		m.seen(configMap, m.name)
		for step := range 60 {
			if m.IntN(2) == 0 {
				m.disturb()
			}
			fresh := m.IntN(3) > 0
			if fresh {
				m.seen(configMap, m.name)
			}
			intent := []string{"apply", "apply with `adopt`", "`adopt` alone", "release"}[m.IntN(4)]
			before := m.live(configMap, m.name)
			want := m.wants(intent, before)
			_, failure := m.PerformIntents(t.Context(), m.target, m.intent(intent))
			after := m.live(configMap, m.name)
			if got := m.othersOf(after); !slices.Equal(got, m.othersOf(before)) {
				t.Fatalf("seed %d step %d: %s: the references of others are %s, were %s", seed, step, intent, got, m.othersOf(before))
			}
			if c := before.Controller(); c != nil && c.UID != m.target.Object.UID && !after.IsStateOf(before) {
				t.Fatalf("seed %d step %d: %s has changed what another one controls: %s", seed, step, intent, after.Raw)
			}
			got := m.outcome(before, failure)
			if got == "nothing" && want == "applied" && field(after, "data", "ours") != "" {
				got = "applied" // before
			}
			if fresh && got != want {
				t.Fatalf("seed %d step %d: %s: %s, want %s (%+v): %s", seed, step, intent, got, want, failure, before.Raw)
			}
		}
	}
}
