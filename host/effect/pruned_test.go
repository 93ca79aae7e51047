package effect

import (
	"strings"
	"testing"
	"time"
)

// The server of these tests has no place for a status at all. A patch that is
// nothing but a pruned path must be tried again like any other.
func TestAPrunedPathIsTriedAgainOnceTheSchemaMayHaveOne(t *testing.T) {
	w, target := newFake(t, answer(200, "application/json", primary))
	want := Status{Patch: []byte(`{"extra":1}`)}
	for _, step := range []struct {
		name string
		do   func()
		sent int
	}{
		{"the first", func() {}, 1},
		{"the same", func() {}, 0},
		{"a new generation of the plugin", func() { w.Rediscovered(widget.Kind) }, 1},
		{"the same", func() {}, 0},
		{"soon after", func() { w.now = w.now.Add(time.Minute) }, 0},
		{"some time later: the CRD may have been corrected", func() { w.now = w.now.Add(prunedFor) }, 1},
		{"the same", func() {}, 0},
	} {
		step.do()
		if _, wrote, failure := w.Status(t.Context(), target, want); wrote || failure != nil {
			t.Fatalf("%s: wrote %v, %v", step.name, wrote, failure)
		}
		if sent := w.wire.take(); len(sent) != step.sent {
			t.Errorf("%s: sent %v", step.name, sent)
		}
	}
	// A new generation is told what it lacks; that it lacks it still is no news.
	if n := strings.Count(w.log.String(), "field=/status/extra\n"); n != 2 {
		t.Errorf("told %d times:\n%s", n, &w.log)
	}
}
