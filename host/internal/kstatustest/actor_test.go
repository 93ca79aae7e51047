package kstatustest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
)

// An act is a change of an actor and where it leads to.
type act struct {
	script string // steps, with commas; see testdata/actor
	again  bool   // by the annotation: the generation stays

	want   status.Status
	ready  string // status/reason of Ready at the end
	passed string // Ready on the way there, in its order; "" for none
}

const (
	current    = status.CurrentStatus
	inProgress = status.InProgressStatus
	failed     = status.FailedStatus

	succeeded = "True/Succeeded"
)

// roles are the actors by name, with one act after the other; few runs each,
// for the host slows down an object that it writes in every run.
var roles = map[string][]act{
	"success": {
		{script: "success", want: current, ready: succeeded},
		{script: "success", want: current, ready: succeeded},
		{script: "success", again: true, want: current, ready: succeeded},
	},
	"requeue": {
		{script: "requeue,requeue,success", want: current, ready: succeeded, passed: "False/Progressing"},
	},
	"requeue-again": {
		{script: "success", want: current, ready: succeeded},
		// The generation has been observed already.
		{script: "requeue,success", again: true, want: current, ready: succeeded, passed: "False/Progressing"},
	},
	"requeue-anew": {
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
		{script: "success", again: true, want: current, ready: succeeded},
	},
	"retry": {
		{script: "retry,retry,success", want: current, ready: succeeded, passed: "False/Retried"},
	},
	"retry-again": {
		{script: "success", want: current, ready: succeeded},
		{script: "retry,success", again: true, want: current, ready: succeeded, passed: "False/Retried"},
	},
	"retry-anew": {
		{script: "success", want: current, ready: succeeded},
		{script: "retry,success", want: current, ready: succeeded, passed: "False/Retried"},
	},
	"stalled": {
		{script: "stalled", want: failed, ready: "False/Stuck"},
		{script: "retry,success", want: current, ready: succeeded, passed: "False/Retried"},
		{script: "stalled", again: true, want: failed, ready: "False/Stuck"},
	},
	"stalled-last": {
		{script: "requeue,waiting,stalled", want: failed, ready: "False/Stuck", passed: "False/Progressing False/Waits"},
		{script: "success", want: current, ready: succeeded},
	},
	"waiting": {
		{script: "waiting,success", want: current, ready: succeeded, passed: "False/Waits"},
		{script: "waiting,success", again: true, want: current, ready: succeeded, passed: "False/Waits"},
	},
	"after": {
		// Ready, then not, then Ready, at one generation and with no trigger.
		{script: "after,requeue,success", want: current, ready: succeeded, passed: "True/Succeeded False/Progressing"},
	},
	"panic": {
		{script: "panic,success", want: current, ready: succeeded, passed: "False/Panic"},
		{script: "panic,success", again: true, want: current, ready: succeeded, passed: "False/Panic"},
	},
	"panic-anew": {
		{script: "success", want: current, ready: succeeded},
		{script: "panic,stalled", want: failed, ready: "False/Stuck", passed: "False/Panic"},
	},
	"refused": {
		{script: "refused,success", want: current, ready: succeeded, passed: "False/Invalid"},
		{script: "refused,success", again: true, want: current, ready: succeeded, passed: "False/Invalid"},
	},
	"refused-anew": {
		{script: "success", want: current, ready: succeeded},
		{script: "refused,success", want: current, ready: succeeded, passed: "False/Invalid"},
	},
	"degraded": {
		{script: "Degraded=True success", want: inProgress, ready: "False/Played"},
		{script: "Degraded= success", again: true, want: current, ready: succeeded},
	},
	"degraded-failing": {
		{script: "Degraded=True requeue,Degraded=True retry,Degraded=True stalled", want: failed, ready: "False/Played"},
		{script: "success", again: true, want: inProgress, ready: "False/Played"}, // it still is
	},
	"synced": {
		{script: "Synced=False success", want: inProgress, ready: "False/Played"},
		{script: "Synced=Unknown success", again: true, want: inProgress, ready: "Unknown/Played"},
		{script: "Synced=True success", want: current, ready: "True/Played"},
	},
	"synced-failing": {
		{script: "Synced=True success", want: current, ready: "True/Played"},
		{script: "retry,success", again: true, want: current, ready: "True/Played", passed: "False/Retried"},
		{script: "Synced= success", want: current, ready: succeeded},
	},
	"reconciling": {
		{script: "Reconciling=True empty", want: inProgress, ready: "False/Played"},
		{script: "empty", again: true, want: inProgress, ready: "False/Played"},
		{script: "success", want: current, ready: succeeded},
	},
	"reconciling-requeue": {
		{script: "Reconciling=True requeue,success", want: current, ready: succeeded, passed: "False/Played"},
	},
	// Ready is not what a guest says against how its run ended.
	"claims": {
		{script: "Ready=True requeue,Ready=True success", want: current, ready: "True/Played", passed: "False/Progressing"},
		{script: "Ready=True stalled", want: failed, ready: "False/Stuck"},
	},
	"claims-unready": {
		{script: "Ready=False success", want: inProgress, ready: "False/Played"},
		{script: "Ready=True Degraded=True success", want: inProgress, ready: "False/Played"},
	},
}

// TestEveryWayToEnd plays every outcome at a new and at an observed
// generation, and looks at each status that the host writes.
func TestEveryWayToEnd(t *testing.T) {
	s := newStage(t)
	acts := 0
	for name, role := range roles {
		acts = max(acts, len(role))
		s.create(name, role[0].script)
	}
	for take := range acts {
		cues := map[string]cue{}
		for name, role := range roles {
			if take < len(role) {
				cues[name] = s.begin(name, take, role[take])
			}
		}
		for name, c := range cues {
			s.expectEnd(name, c, roles[name][take])
		}
		if take == 0 {
			s.addForeignCondition("retry-anew")
		}
	}
	if conditionOf(s.actors.latest("retry-anew"), "Foreign") == nil {
		t.Error("another writer's condition is gone")
	}
	s.deleteAll()
	s.expectSound()
}

// TestChangesAtAnyMoment lets scripts, specs and annotations come at random
// while the host runs: also what it writes about a state that is no longer so
// is never taken for more than it is.
func TestChangesAtAnyMoment(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	s := newStage(t)
	const many, changes = 40, 200
	for i := range many {
		s.create(fmt.Sprintf("actor-%d", i), "success")
	}
	pause := time.NewTicker(15 * time.Millisecond)
	defer pause.Stop()
	for i := range changes {
		s.begin(fmt.Sprintf("actor-%d", random.IntN(many)), i+1, act{script: randomScript(random), again: random.IntN(2) == 0})
		<-pause.C
	}
	last, cues := act{script: "Degraded= Synced= success"}, map[string]cue{}
	for i := range many {
		name := fmt.Sprintf("actor-%d", i)
		cues[name] = s.begin(name, changes+1, last)
	}
	for name, c := range cues {
		if o := s.awaitEnd(name, c, last); readyOf(o) != succeeded {
			t.Errorf("%s ends with Ready %s", name, readyOf(o))
		}
	}
	s.expectSound()
}

func randomScript(random *rand.Rand) string {
	verdicts := []string{"success", "requeue", "empty", "after", "retry", "stalled", "waiting", "panic", "refused"}
	conditions := []string{"", "", "Degraded=True ", "Degraded= ", "Synced=True ", "Synced=False ", "Synced=Unknown ", "Synced= ", "Reconciling=True ", "Ready=True ", "Ready=False "}
	var script []string
	for range 1 + random.IntN(3) {
		script = append(script, conditions[random.IntN(len(conditions))]+verdicts[random.IntN(len(verdicts))])
	}
	return strings.Join(script, ",")
}
