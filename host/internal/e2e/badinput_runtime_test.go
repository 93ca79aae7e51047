package e2e

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/wasmbuild"
)

var moods = schema.GroupVersionResource{Group: "e2e.thole.dev", Version: "v1", Resource: "moods"}

// badMoods has a line for each way in which a run can go wrong. The object
// tells it as its condition Ready, and recovers when it is corrected.
var badMoods = []struct {
	mood   string
	class  string // of thole_reconcile_errors_total
	reason string
	told   []string // in the message: what is wrong, where, and what to do
}{
	{"garbage", "abi", "InvalidResult", []string{"the plugin's result is not understood: ", "is not UTF-8"}},
	{"unknown field", "abi", "InvalidResult", []string{"the plugin's result is not understood: ", `unknown field "aply", did you mean "apply"?`}},
	{"panic", "panic", "Panic", []string{"this mood is too bad"}},
	{"child refused", "retry", "Invalid", []string{"apply v1 ConfigMap %s/child-refused: ", "data[not a key]: Invalid value"}},
	{"status refused", "retry", "Invalid", []string{"status e2e.thole.dev/v1 Mood %s/status-refused: ", `status.level: Unsupported value: "middling"`}},
	{"child too large", "retry", "Invalid", []string{"apply v1 ConfigMap %s/child-too-large: ", "Too long"}},
	{"result too large", "abi", "ContractBroken", []string{"1572864 bytes"}},
}

// TestBadRunsAreToldOnTheObject has an object for each way, all at once in one
// host, and a healthy one beside them.
func TestBadRunsAreToldOnTheObject(t *testing.T) {
	installCRD(t, "host/internal/e2e/testdata/badinput/crd.yaml")
	ns, d := namespace(t), newDirectory(t)
	d.install("mood", wasmbuild.Build(t, wasmbuild.TinyGo, "host/internal/e2e/testdata/badinput"))
	p := thole(t, d, ns, "limits: {writesPerSecond: 200, writeBurst: 200}")
	p.ready("mood", 1)
	for _, m := range badMoods {
		primary(t, moods, "Mood", ns, dashed(m.mood), map[string]any{"mood": m.mood})
	}
	primary(t, moods, "Mood", ns, "good", map[string]any{"mood": "good"})
	await.Until(t, "the healthy one is Ready", func() bool { return ready(get(t, moods, ns, "good")) })
	for _, m := range badMoods {
		t.Run(m.mood, func(t *testing.T) {
			name := dashed(m.mood)
			var o *unstructured.Unstructured
			await.Until(t, "it is not Ready for "+m.reason, func() bool {
				o = get(t, moods, ns, name)
				return condition(o, "Ready")["reason"] == m.reason
			})
			expectFailing(t, o, ns, m.told)
			p.expectFailed(t, "mood/mood", m.class)
			done(t, patchSpec(t.Context(), moods, ns, name, "mood", "good"))
			await.Until(t, "it is Ready once corrected", func() bool {
				o := get(t, moods, ns, name)
				return ready(o) && field(o, "status", "level") == "low" && field(get(t, configMaps, ns, name), "data", "mood") == "good"
			})
		})
	}
	t.Run("huge", func(t *testing.T) { expectHugeObjects(t, ns) })
	p.stop()
}

func dashed(s string) string { return strings.ReplaceAll(s, " ", "-") }

// expectFailing: the run that failed is told, and nothing of it was written.
func expectFailing(t *testing.T, o *unstructured.Unstructured, ns string, told []string) {
	t.Helper()
	c := condition(o, "Ready")
	message, _ := c["message"].(string)
	if c["status"] != "False" || condition(o, "Reconciling")["reason"] != "ProgressingWithRetry" {
		t.Errorf("Ready is %v, Reconciling %v", c, condition(o, "Reconciling"))
	}
	for _, text := range told {
		if strings.Contains(text, "%s") {
			text = fmt.Sprintf(text, ns)
		}
		if !strings.Contains(message, text) {
			t.Errorf("the message is %s\nand not %s", message, text)
		}
	}
	if level := field(o, "status", "level"); level != "" {
		t.Errorf("the status of a failed run was written: level %s", level)
	}
	t.Log(message)
}

// expectHugeObjects: a primary and a child of nearly a MiB are as good as any.
func expectHugeObjects(t *testing.T, ns string) {
	const size = 1_000_000
	primary(t, moods, "Mood", ns, "huge-child", map[string]any{"mood": "huge child"})
	primary(t, moods, "Mood", ns, "huge-primary", map[string]any{"mood": "good", "ballast": strings.Repeat("x", size)})
	await.Until(t, "the huge primary is Ready", func() bool {
		o := get(t, moods, ns, "huge-primary")
		weight, _, _ := unstructured.NestedInt64(o.Object, "status", "weight")
		return ready(o) && weight == size
	})
	await.Until(t, "the owner of a huge child is Ready", func() bool {
		return ready(get(t, moods, ns, "huge-child")) && len(field(get(t, configMaps, ns, "huge-child"), "data", "mood")) == size
	})
}
