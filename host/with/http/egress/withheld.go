package egress

import (
	"slices"
	"sync"
)

const (
	// maxWithheld bounds of how many Secrets the values are remembered.
	maxWithheld = 2 * MaxEntries
	// valuesWithheld is how many values of a Secret are remembered: the last one, and the one
	// before, which a host may still have in its answers.
	valuesWithheld = 2
)

// withheld has the credentials that were read for a plugin, by any of its revisions: no answer may have
// them, whichever entry they are for.
type withheld struct {
	mu  sync.Mutex
	all []valuesOf // the one that was read last first
}

// valuesOf are the values of a Secret, the latest first.
type valuesOf struct {
	ref    SecretRef
	values []*credential
}

// add adds what was read of a Secret. It returns the credential that is there already, if it is the same.
func (w *withheld) add(ref SecretRef, c *credential) *credential {
	w.mu.Lock()
	defer w.mu.Unlock()
	of := valuesOf{ref: ref}
	if i := slices.IndexFunc(w.all, func(v valuesOf) bool { return v.ref == ref }); i >= 0 {
		of = w.all[i]
		w.all = slices.Delete(w.all, i, i+1)
	}
	if i := slices.IndexFunc(of.values, func(other *credential) bool { return other.all == c.all }); i >= 0 {
		c = of.values[i]
		of.values = slices.Delete(of.values, i, i+1)
	}
	of.values = slices.Insert(of.values, 0, c)
	of.values = of.values[:min(len(of.values), valuesWithheld)]
	w.all = slices.Insert(w.all, 0, of)
	w.all = w.all[:min(len(w.all), maxWithheld)]
	return c
}

// has reports whether there are values of a Secret.
func (w *withheld) has(ref SecretRef) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.all, func(of valuesOf) bool { return of.ref == ref })
}

// any reports whether there are values.
func (w *withheld) any() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.all) > 0
}

// needles returns what no answer may have.
func (w *withheld) needles() (all needles) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, of := range w.all {
		for _, c := range of.values {
			all = append(all, c.secrets...)
		}
	}
	return all
}
