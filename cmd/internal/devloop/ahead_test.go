package devloop

import (
	"strings"
	"testing"

	"github.com/thole-dev/thole/cmd/internal/words"
)

func TestAGenerationRunsBeforeWhatItDoes(t *testing.T) {
	run := func(generation int) *record {
		return &record{module: dispatchModule, text: words.Reconciled, fields: []field{{"object", "ns/a"}, {"generation", generation}, {"result", "success"}, {"duration", "1ms"}}}
	}
	says := func(text, name string, generation int) *record {
		return &record{module: "catalog", text: text, fields: []field{{"plugin", "p"}, {name, generation}}}
	}
	var out strings.Builder
	s := &session{out: &printer{out: &out}, recorder: newRecorder()}
	for _, r := range []*record{
		run(1), says(words.PluginRuns, "generation", 1), run(1),
		run(2), run(1), says(words.PluginRuns, "generation", 2), run(2),
		says(words.RolledBack, "to", 1), run(1),
		says(words.PluginStopped, "-", 0), run(1), says(words.PluginRuns, "generation", 1),
	} {
		s.tell(r)
	}
	var labels []string
	for l := range strings.Lines(out.String()) {
		labels = append(labels, strings.Fields(l)[1])
	}
	want := "runs reconcile reconcile reconcile runs reconcile reconcile rollback reconcile stopped runs reconcile"
	if got := strings.Join(labels, " "); got != want {
		t.Errorf("told in the order\n%s, want\n%s", got, want)
	}
}

func TestAHostThatSaysNothingIsNotWaitedFor(t *testing.T) {
	var out strings.Builder
	s := &session{out: &printer{out: &out}, recorder: newRecorder()}
	for range mostHeld + 1 {
		s.tell(&record{module: dispatchModule, text: words.Reconciled, fields: []field{{"generation", 1}}})
	}
	if got := strings.Count(out.String(), "\n"); got != mostHeld+1 {
		t.Errorf("%d lines are told, want %d", got, mostHeld+1)
	}
}
