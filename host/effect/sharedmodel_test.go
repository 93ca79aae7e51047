package effect

import (
	"encoding/json"
	"fmt"
	"maps"
	"testing"

	"pgregory.net/rapid"

	"github.com/thole-dev/thole/abi"
)

// sharing is a model of primaries that share a ConfigMap with somebody else.
type sharing struct {
	*world
	primaries []Target
	named     []map[string]string
}

func TestSharedObjectHasExactlyTheFieldsThatAreNamed(t *testing.T) {
	w := newCluster(t)
	primaries := w.sharers("p0", "p1", "p2")
	rapid.Check(t, func(t *rapid.T) {
		w.start()
		if w.live(configMap, "c") != nil {
			w.remove(configMap, "c")
		}
		w.create(configMap, `{"metadata":{"name":"c"},"data":{"theirs":"1"}}`)
		w.seen(configMap, "c")
		m := sharing{w, primaries, make([]map[string]string, len(primaries))}
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			m.step(t)
			m.expectNamed(t)
		}
	})
}

func (m *sharing) step(t *rapid.T) {
	i := rapid.IntRange(0, len(m.primaries)-1).Draw(t, "primary")
	p := m.primaries[i]
	switch rapid.SampledFrom([]string{"apply", "apply", "unname", "go", "restart", "lag"}).Draw(t, "what") {
	case "apply":
		m.named[i] = map[string]string{}
		var entries []string
		for _, name := range []string{"same", "theirs", fmt.Sprint("k", i)} {
			if rapid.Bool().Draw(t, name) {
				m.named[i][name] = "1"
				entries = append(entries, name+"=1")
			}
		}
		m.intents(p, data(entries...))
		m.releases(m.Release(m.Context(), p, false))
	case "unname":
		m.named[i] = nil
		m.intents(p, &abi.Result{})
		m.releases(m.Release(m.Context(), p, false))
	case "go":
		m.named[i] = nil
		m.releases(m.Release(m.Context(), p, true))
	case "restart":
		m.seen(configMap, "c")
		m.start()
		m.FindShared(p.Controller)
	case "lag":
		return // the store stays as it is
	}
	if rapid.Bool().Draw(t, "seen") {
		m.seen(configMap, "c")
	}
}

func (m *sharing) expectNamed(t *rapid.T) {
	want := map[string]string{"theirs": "1"}
	sharing := 0
	for _, named := range m.named {
		maps.Copy(want, named)
		if named != nil {
			sharing++
		}
	}
	have := m.live(configMap, "c")
	var got map[string]string
	if err := json.Unmarshal([]byte(field(have, "data")), &got); err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(got, want) || sharers(have.Annotations) != sharing || len(m.managers()) != sharing {
		t.Fatalf("%v, %d sharers, %d managers, want %v by %d", got, sharers(have.Annotations), len(m.managers()), want, sharing)
	}
}
