package e2e

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

var moods = schema.GroupVersionResource{Group: "e2e.thole.dev", Version: "v1", Resource: "moods"}

// failures has an entry for each way in which a run can fail. The field mood of a
// Mood makes the plugin fail that way.
var failures = []struct {
	mood    string
	class   string   // label of thole_reconcile_errors_total
	reason  string   // of the condition Ready
	message []string // parts of its message: what is wrong, where, and what to do; %s is the namespace
}{
	{"garbage", "abi", "InvalidResult", []string{"the result of the plugin cannot be decoded: ", "is not UTF-8"}},
	{"unknown field", "abi", "InvalidResult", []string{
		"the result of the plugin cannot be decoded: ", `unknown field "aply", did you mean "apply"?`,
	}},
	{"panic", "panic", "Panic", []string{"panic: trap: unreachable; in ", "main.reconcile"}},
	{"child refused", "retry", "Invalid", []string{"apply v1 ConfigMap %s/child-refused: ", "data[not a key]: Invalid value"}},
	{"status refused", "retry", "Invalid", []string{
		"status e2e.thole.dev/v1 Mood %s/status-refused: ", `status.level: Unsupported value: "middling"`,
	}},
	{"child too large", "retry", "Invalid", []string{"apply v1 ConfigMap %s/child-too-large: ", "Too long"}},
	{"result too large", "abi", "ContractBroken", []string{"1572864 bytes"}},
}

// One host has an object for each way to fail, and one that succeeds.
func TestFailedRunIsReportedInTheConditionsOfItsObject(t *testing.T) {
	t.Parallel()
	installCRD(t, "host/internal/e2e/testdata/badinput/crd.yaml")
	ns, d := namespace(t), newDirectory(t)
	d.install("mood", wasmbuild.Build(t, wasmbuild.TinyGo, "host/internal/e2e/testdata/badinput"))
	p := start(t, d, ns, "")
	p.awaitRunning("mood", 1)
	for _, f := range failures {
		createMood(t, ns, dashed(f.mood), f.mood)
	}
	createMood(t, ns, "good", "good")
	await.Until(t, "the object that succeeds is Ready", func() bool { return ready(get(t, moods, ns, "good")) })
	for _, f := range failures {
		t.Run(f.mood, func(t *testing.T) {
			name := dashed(f.mood)
			var o *unstructured.Unstructured
			await.Until(t, "Ready has the reason "+f.reason, func() bool {
				o = get(t, moods, ns, name)
				return condition(o, "Ready")["reason"] == f.reason
			})
			expectFailing(t, o, ns, f.message)
			p.awaitFailedRuns(t, "mood/mood", f.class)
			must(t, patchSpec(t.Context(), moods, ns, name, "mood", "good"))
			await.Until(t, "the corrected object is Ready", func() bool {
				o := get(t, moods, ns, name)
				return ready(o) && field(o, "status", "level") == "low" && field(get(t, configMaps, ns, name), "data", "mood") == "good"
			})
		})
	}
	t.Run("objects of nearly 1 MiB succeed", func(t *testing.T) { expectHugeObjectsServed(t, ns) })
	p.stop()
}

func createMood(t *testing.T, ns, name, mood string) {
	t.Helper()
	create(t, moods, "Mood", ns, name, map[string]any{"mood": mood})
}

func dashed(s string) string { return strings.ReplaceAll(s, " ", "-") }

// expectFailing expects that the conditions of an object report a failed run, of
// which nothing else was written.
func expectFailing(t *testing.T, o *unstructured.Unstructured, ns string, parts []string) {
	t.Helper()
	c := condition(o, "Ready")
	message, _ := c["message"].(string)
	if c["status"] != "False" || condition(o, "Reconciling")["reason"] != "ProgressingWithRetry" {
		t.Errorf("Ready is %v, Reconciling %v", c, condition(o, "Reconciling"))
	}
	for _, part := range parts {
		if part = strings.ReplaceAll(part, "%s", ns); !strings.Contains(message, part) {
			t.Errorf("the message is %s\nwant %s", message, part)
		}
	}
	if level := field(o, "status", "level"); level != "" {
		t.Errorf("the status of a failed run was written: level %s", level)
	}
	t.Log(message)
}

// expectHugeObjectsServed expects that a primary and a child of nearly 1 MiB are
// reconciled like others.
func expectHugeObjectsServed(t *testing.T, ns string) {
	const size = 1_000_000
	createMood(t, ns, "huge-child", "huge child")
	create(t, moods, "Mood", ns, "huge-primary", map[string]any{"mood": "good", "ballast": strings.Repeat("x", size)})
	await.Until(t, "the huge primary is Ready", func() bool {
		o := get(t, moods, ns, "huge-primary")
		weight, _, _ := unstructured.NestedInt64(o.Object, "status", "weight")
		return ready(o) && weight == size
	})
	await.Until(t, "the owner of a huge child is Ready", func() bool {
		return ready(get(t, moods, ns, "huge-child")) && len(field(get(t, configMaps, ns, "huge-child"), "data", "mood")) == size
	})
}
