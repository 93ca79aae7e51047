package kstatustest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
)

// A change gives an actor another script, and expects what the script leads to.
type change struct {
	script       string // steps, separated by commas; see testdata/actor
	inAnnotation bool   // the script is in the annotation, so that the generation stays

	want   status.Status
	ready  string // status/reason of the condition Ready at the end
	passed string // the values of Ready before, in order; "" for none
}

const (
	current    = status.CurrentStatus
	inProgress = status.InProgressStatus
	failed     = status.FailedStatus

	succeeded = "True/Succeeded"
)

// scenarios has the changes of each actor, by its name. They take few runs each,
// because the host slows down an object that it writes in every run.
var scenarios = map[string][]change{
	"success": {
		{script: "success", want: current, ready: succeeded},
		{script: "success", want: current, ready: succeeded},
		{script: "success", inAnnotation: true, want: current, ready: succeeded},
	},
	"requeue": {
		{script: "requeue,requeue,success", want: current, ready: succeeded, passed: "False/Progressing"},
	},
	"requeue-again": {
		{script: "success", want: current, ready: succeeded},
		// The generation is already observed.
		{script: "requeue,success", inAnnotation: true, want: current, ready: succeeded, passed: "False/Progressing"},
	},
	"requeue-new-generation": {
		{script: "success", want: current, ready: succeeded},
		{script: "requeue,success", want: current, ready: succeeded, passed: "False/Progressing"},
	},
	"empty": {
		{script: "empty", want: inProgress, ready: "Unknown/Undetermined"},
		{script: "success", want: current, ready: succeeded},
		{script: "empty", want: current, ready: succeeded},
	},
	"empty-unready": {
		{script: "requeue,empty", want: inProgress, ready: "False/Progressing"},
		{script: "success", inAnnotation: true, want: current, ready: succeeded},
	},
	"retry": {
		{script: "retry,retry,success", want: current, ready: succeeded, passed: "False/Retried"},
	},
	"retry-again": {
		{script: "success", want: current, ready: succeeded},
		{script: "retry,success", inAnnotation: true, want: current, ready: succeeded, passed: "False/Retried"},
	},
	"retry-new-generation": {
		{script: "success", want: current, ready: succeeded},
		{script: "retry,success", want: current, ready: succeeded, passed: "False/Retried"},
	},
	"stalled": {
		{script: "stalled", want: failed, ready: "False/Stuck"},
		{script: "retry,success", want: current, ready: succeeded, passed: "False/Retried"},
		{script: "stalled", inAnnotation: true, want: failed, ready: "False/Stuck"},
	},
	"stalled-last": {
		{script: "requeue,waiting,stalled", want: failed, ready: "False/Stuck", passed: "False/Progressing False/Waits"},
		{script: "success", want: current, ready: succeeded},
	},
	"waiting": {
		{script: "waiting,success", want: current, ready: succeeded, passed: "False/Waits"},
		{script: "waiting,success", inAnnotation: true, want: current, ready: succeeded, passed: "False/Waits"},
	},
	"after": {
		// Ready, not Ready, Ready again: at one generation and without a trigger.
		{script: "after,requeue,success", want: current, ready: succeeded, passed: "True/Succeeded False/Progressing"},
	},
	"panic": {
		{script: "panic,success", want: current, ready: succeeded, passed: "False/Panic"},
		{script: "panic,success", inAnnotation: true, want: current, ready: succeeded, passed: "False/Panic"},
	},
	"panic-new-generation": {
		{script: "success", want: current, ready: succeeded},
		{script: "panic,stalled", want: failed, ready: "False/Stuck", passed: "False/Panic"},
	},
	"refused": {
		{script: "refused,success", want: current, ready: succeeded, passed: "False/Invalid"},
		{script: "refused,success", inAnnotation: true, want: current, ready: succeeded, passed: "False/Invalid"},
	},
	"refused-new-generation": {
		{script: "success", want: current, ready: succeeded},
		{script: "refused,success", want: current, ready: succeeded, passed: "False/Invalid"},
	},
	"degraded": {
		{script: "Degraded=True success", want: inProgress, ready: "False/Scripted"},
		{script: "Degraded= success", inAnnotation: true, want: current, ready: succeeded},
	},
	"degraded-failing": {
		{script: "Degraded=True requeue,Degraded=True retry,Degraded=True stalled", want: failed, ready: "False/Scripted"},
		{script: "success", inAnnotation: true, want: inProgress, ready: "False/Scripted"}, // Degraded is still True
	},
	"synced": {
		{script: "Synced=False success", want: inProgress, ready: "False/Scripted"},
		{script: "Synced=Unknown success", inAnnotation: true, want: inProgress, ready: "Unknown/Scripted"},
		{script: "Synced=True success", want: current, ready: "True/Scripted"},
	},
	"synced-failing": {
		{script: "Synced=True success", want: current, ready: "True/Scripted"},
		{script: "retry,success", inAnnotation: true, want: current, ready: "True/Scripted", passed: "False/Retried"},
		{script: "Synced= success", want: current, ready: succeeded},
	},
	"reconciling": {
		{script: "Reconciling=True empty", want: inProgress, ready: "False/Scripted"},
		{script: "empty", inAnnotation: true, want: inProgress, ready: "False/Scripted"},
		{script: "success", want: current, ready: succeeded},
	},
	"reconciling-requeue": {
		{script: "Reconciling=True requeue,success", want: current, ready: succeeded, passed: "False/Scripted"},
	},
	// A guest cannot set Ready against the outcome of its run.
	"claims": {
		{script: "Ready=True requeue,Ready=True success", want: current, ready: "True/Scripted", passed: "False/Progressing"},
		{script: "Ready=True stalled", want: failed, ready: "False/Stuck"},
	},
	"claims-unready": {
		{script: "Ready=False success", want: inProgress, ready: "False/Scripted"},
		{script: "Ready=True Degraded=True success", want: inProgress, ready: "False/Scripted"},
	},
}

// TestStatusAfterEveryOutcome has runs end with every outcome, at a new and at an
// observed generation, and checks each status that the host writes.
func TestStatusAfterEveryOutcome(t *testing.T) {
	s := newFixture(t)
	rounds := 0
	for name, changes := range scenarios {
		rounds = max(rounds, len(changes))
		s.create(name, changes[0].script)
	}
	for i := range rounds {
		pending := map[string]applied{}
		for name, changes := range scenarios {
			if i < len(changes) {
				pending[name] = s.apply(name, i, changes[i])
			}
		}
		for name, a := range pending {
			s.expectEnd(name, a, scenarios[name][i])
		}
		if i == 0 {
			s.addForeignCondition("retry-new-generation")
		}
	}
	if conditionOf(s.actors.latest("retry-new-generation"), "Foreign") == nil {
		t.Error("another writer's condition was removed")
	}
	s.deleteAll()
	s.expectNoViolation()
}

// TestStatusDuringRandomChanges changes scripts, specs and annotations at random
// while the host runs: what the host writes about a state that has changed in the
// meantime must be valid too.
func TestStatusDuringRandomChanges(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	s := newFixture(t)
	const many, changes = 40, 200
	for i := range many {
		s.create(fmt.Sprintf("actor-%d", i), "success")
	}
	pause := time.NewTicker(15 * time.Millisecond)
	defer pause.Stop()
	for i := range changes {
		s.apply(fmt.Sprintf("actor-%d", random.IntN(many)), i+1, change{script: randomScript(random), inAnnotation: random.IntN(2) == 0})
		<-pause.C
	}
	last, pending := change{script: "Degraded= Synced= success"}, map[string]applied{}
	for i := range many {
		name := fmt.Sprintf("actor-%d", i)
		pending[name] = s.apply(name, changes+1, last)
	}
	for name, a := range pending {
		if o := s.awaitEnd(name, a, last); readyOf(o) != succeeded {
			t.Errorf("%s ends with Ready %s", name, readyOf(o))
		}
	}
	s.expectNoViolation()
}

func randomScript(random *rand.Rand) string {
	outcomes := []string{"success", "requeue", "empty", "after", "retry", "stalled", "waiting", "panic", "refused"}
	conditions := []string{"", "", "Degraded=True ", "Degraded= ", "Synced=True ", "Synced=False ", "Synced=Unknown ", "Synced= ", "Reconciling=True ", "Ready=True ", "Ready=False "}
	var script []string
	for range 1 + random.IntN(3) {
		script = append(script, conditions[random.IntN(len(conditions))]+outcomes[random.IntN(len(outcomes))])
	}
	return strings.Join(script, ",")
}
