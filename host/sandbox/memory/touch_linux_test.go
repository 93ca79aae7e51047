package memory

import "testing"

// TestLargeMemoriesHaveTheirPages before a call begins, beyond the first ones.
func TestLargeMemoriesHaveTheirPages(t *testing.T) {
	const size = 8 << 20
	b := NewBudget(1<<30, noneIdle)
	m, err := b.Account().Linear(size, size, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	if missing := missingPages(m.data[untouched:]); missing > 0 {
		t.Errorf("new: %d pages are missing", missing)
	}
	m.data[5<<20] = 7
	im := m.Image()
	for _, step := range []struct {
		name string
		do   func()
	}{
		{"restored", func() { m.Restore(im) }},
		{"restored often", func() {
			for range 2 * trimEvery {
				m.Restore(im)
			}
		}},
		{"new from an image", func() { m.RestoreNew(im) }},
		{"trimmed", func() { m.RestoreAndTrim(im) }},
	} {
		step.do()
		if missing := missingPages(m.data[untouched:]); missing > 0 {
			t.Errorf("%s: %d pages are missing", step.name, missing)
		}
	}
}

func missingPages(p []byte) (n int) {
	for at := 0; at < len(p); at += len(residency{}) * chunk {
		part := p[at:min(at+len(residency{})*chunk, len(p))]
		var pages residency
		readResidency(part, &pages)
		for i := range len(part) / chunk {
			if pages[i]&1 == 0 {
				n++
			}
		}
	}
	return n
}
