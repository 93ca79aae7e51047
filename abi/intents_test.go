package abi

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

func TestIntentsAreLimitedTogether(t *testing.T) {
	const (
		apply  = `{"object":{"apiVersion":"v1","kind":"K","metadata":{"name":"x"}}}`
		remove = `{"apiVersion":"v1","kind":"K","name":"x"}`
		event  = `{"type":"Normal","reason":"A"}`
	)
	list := func(name string, n int, entry string) string {
		return fmt.Sprintf("%q:[%s]", name, strings.TrimSuffix(strings.Repeat(entry+",", n), ","))
	}
	for _, limit := range []int{3, MaxIntents, MaxAllowedIntents} {
		for name, c := range map[string]struct {
			text string
			many bool
		}{
			"as many":        {list("apply", limit, apply), false},
			"too many":       {list("apply", limit+1, apply), true},
			"deletes":        {list("delete", limit+1, remove), true},
			"releases":       {list("release", limit+1, remove), true},
			"Events":         {list("events", limit+1, event), true},
			"together":       {list("release", limit-1, remove) + "," + list("events", 2, event), true},
			"another error":  {list("apply", 1, `{}`), false},
			"of other lists": {list("conditions", MaxConditions+1, `{"type":"A"}`), false},
		} {
			out, err := DecodeResultFor("", limit, nil, []byte("{"+c.text+"}"))
			if many := TooManyIntents(err, limit); many != c.many || name == "as many" && (err != nil || out.Intents() != limit) {
				t.Errorf("%s with a limit of %d: %v", name, limit, err)
			}
		}
	}
}

// Nothing is allocated for entries beyond the limit, whatever a result claims.
func TestEntriesBeyondTheLimitTakeNoMemory(t *testing.T) {
	const entry = `{"type":"Normal","reason":"A"},`
	text := []byte(`{"events":[` + strings.Repeat(entry, MaxOutput/len(entry)-1) + `]}`)
	for _, limit := range []int{10, 1000} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := DecodeResultFor("", limit, nil, text)
		runtime.ReadMemStats(&after)
		if !TooManyIntents(err, limit) {
			t.Fatal(err)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 10_000+uint64(limit)*1000 {
			t.Errorf("%d bytes for %d of %d bytes of entries", took, limit, len(text))
		}
	}
}
