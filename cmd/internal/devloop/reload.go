package devloop

import (
	"fmt"
	"strings"
	"time"

	"github.com/thole-dev/thole/cmd/internal/words"
)

// reload is a build on its way from the save to the first reconcile.
type reload struct {
	build      *build
	generation int       // 0 until it runs
	runs       time.Time // since then
}

// longestReload is how long after a generation began to run a reconcile may be
// said to be due to that.
const longestReload = time.Minute

// ran notes that a generation runs.
func (r *reload) ran(rec *record) {
	if r.build != nil && r.generation == 0 && rec.field("digest") == r.build.digest {
		r.generation, r.runs = rec.number("generation"), rec.at
	}
}

// reconciled notes the end of a reconcile and returns what the reload took, if
// it is the first on the new generation and there was a save.
func (r *reload) reconciled(rec *record) (text string, ok bool) {
	if r.generation == 0 || rec.number("generation") != r.generation {
		return "", false
	}
	b, runs := r.build, r.runs
	if rec.at.Before(runs) {
		runs = rec.at // the host says that it runs a moment after it does
	}
	r.build, r.generation = nil, 0
	if len(b.changed) == 0 || rec.at.Sub(runs) > longestReload {
		return "", false
	}
	return took(rec.at.Sub(b.saved), []part{
		{"noticed", b.noticed.Sub(b.saved)},
		{"built", b.compiled.Sub(b.noticed)},
		{"checked", b.done.Sub(b.compiled)},
		{"loaded", runs.Sub(b.done)},
		{"first reconcile", rec.at.Sub(runs)},
	}), true
}

type part struct {
	name string
	took time.Duration
}

func took(all time.Duration, parts []part) string {
	texts := make([]string, len(parts))
	for i, p := range parts {
		texts[i] = p.name + " " + words.Duration(p.took)
	}
	return fmt.Sprintf("%s after the save: %s", words.Duration(all), strings.Join(texts, ", "))
}
