package effect

import (
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// A replica is suspended between the check and the request, and goes on when another replica leads
// and has written: its request changes nothing.
func TestAWriteOfAReplicaThatWasSuspendedChangesNothingNewer(t *testing.T) {
	const child = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"by":"%s"}}`
	for name, c := range map[string]struct {
		object object.Resource
		name   string
		late   func() *abi.Result
	}{
		"apply": {configMap, "c", func() *abi.Result { return apply(child, "suspended") }},
		"delete": {configMap, "c", func() *abi.Result {
			return &abi.Result{Delete: []abi.Ref{configMap.Kind.Ref("", "c")}}
		}},
		"patch": {widget, "w", func() *abi.Result { return &abi.Result{Patch: []byte(`{"metadata":{"labels":{"by":"suspended"}}}`)} }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCluster(t)
			target := w.owner(list(configMap), nil)
			w.intents(target, apply(child, "before"))
			w.seen(configMap, "c")
			w.seen(widget, "w")
			var newer *object.Object
			w.start(func(config *Config) {
				config.MayWrite = func() error {
					if newer == nil {
						newer = w.edit(c.object, c.name, "", `{"metadata":{"annotations":{"by":"another replica"}}}`)
					}
					return nil
				}
			})
			_, failure := w.PerformIntents(t.Context(), target, c.late())
			if failure == nil || !failure.Conflict {
				t.Errorf("failed with %+v, want a conflict", failure)
			}
			if now := w.live(c.object, c.name); newer == nil || now == nil || now.ResourceVersion != newer.ResourceVersion {
				t.Errorf("got %v, want it as the other replica has left it", now)
			}
			w.seen(configMap, "c")
			target.Object = w.seen(widget, "w")
			w.intents(target, c.late()) // the next run succeeds
		})
	}
}
