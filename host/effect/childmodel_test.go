package effect

import (
	"encoding/json"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/thole-dev/thole/abi"
)

// Whatever others do to a child, and whatever the cache keeps of it, the next run makes
// it what the intent wants, and the run after that sends nothing.
func TestChildrenFollowTheirIntentWhateverIsKeptOfThem(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(configMap), nil)
	number := 0
	rapid.Check(t, func(rt *rapid.T) {
		number++
		name := fmt.Sprintf("c%d", number)
		w.store.selected, w.store.metadata = nil, nil
		if rapid.Bool().Draw(rt, "managed only") {
			w.store.followManaged(configMap)
		}
		if rapid.Bool().Draw(rt, "metadata only") {
			w.store.keepMetadata(configMap)
		}
		w.start(managed)
		value := rapid.SampledFrom([]string{"", "1", "2"})
		want := map[string]string{}
		for range rapid.IntRange(1, 8).Draw(rt, "steps") {
			switch rapid.SampledFrom([]string{"edit", "edit", "label", "annotation", "restart", "intent"}).Draw(rt, "step") {
			case "edit":
				edit(w, name, fmt.Sprintf(`{"data":{%q:%s}}`, rapid.SampledFrom([]string{"a", "b", "theirs"}).Draw(rt, "key"), quoteOrNull(value.Draw(rt, "value"))))
			case "label":
				edit(w, name, fmt.Sprintf(`{"metadata":{"labels":{"thole.dev/managed-by":%s}}}`, quoteOrNull(value.Draw(rt, "label"))))
			case "annotation":
				edit(w, name, fmt.Sprintf(`{"metadata":{"annotations":{"theirs":"x","thole.dev/applied":%s}}}`, quoteOrNull(value.Draw(rt, "annotation"))))
			case "restart":
				w.start(managed)
			case "intent":
				want = map[string]string{}
				for _, key := range []string{"a", "b"} {
					if v := value.Draw(rt, key); v != "" {
						want[key] = v
					}
				}
			}
			text, _ := json.Marshal(want)
			in := apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":%s}`, name, text)
			w.seen(configMap, name)
			w.intents(target, in)
			got := w.seen(configMap, name)
			for key, v := range want {
				if field(got, "data", key) != quote(v) {
					rt.Fatalf("%s is not %s: %s", key, v, got.Raw)
				}
			}
			if got.Labels[abi.LabelManagedBy] != "demo" {
				rt.Fatalf("labels are %v", got.Labels)
			}
			w.wire.take()
			if w.intents(target, in); len(w.wire.take()) != 0 {
				rt.Fatalf("a second run sent requests")
			}
		}
	})
}

// edit changes an object if it exists.
func edit(w *world, name, body string) {
	if w.live(configMap, name) != nil {
		w.edit(configMap, name, "", body)
	}
}

func quoteOrNull(s string) string {
	if s == "" {
		return "null"
	}
	return quote(s)
}
