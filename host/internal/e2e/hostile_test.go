package e2e

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/tholetest"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// hostileRuns are guests of the conformance kit that load, and whose runs, steps or
// scans fail: some for each way in which a guest can do harm.
var hostileRuns = []string{
	// They take time.
	"loop-nest", "copy-straight", "cache-misses", "sleep-storm", "log-bomb-huge",
	"daemon-loop", "scan-loop",
	// They take memory and stack.
	"memory-bomb-touched", "deep-recursion-frames", "daemon-memory-bomb",
	// They reach beyond what they have.
	"edge-across", "clock-storm",
	// Their results are not what they may be.
	"result-half-surrogate", "result-half-surrogate-name", "daemon-large-state", "scan-too-many",
	"result-patch-of-suspend", "result-patch-of-applied", "result-patch-of-managed-by", "result-patch-of-finalizers",
	"output-oversize",
	// They print what they may have read anywhere.
	"panic-text",
}

// hostileLoads returns the guests of the conformance kit that must not be loaded, and
// try to harm the host while it loads them, or by what their manifest asks for. Of those
// that differ by a number alone, or by what they have too many of, there is one here or
// among [badPlugins].
func hostileLoads(t *testing.T) (all []tck.Case) {
	t.Helper()
	alike := regexp.MustCompile(`^count-bomb-|-beyond-[12]$`)
	for _, c := range tck.Hostile() {
		if c.Stage == tck.StageLoad && !alike.MatchString(c.Name) {
			all = append(all, c)
		}
	}
	return append(all, caseOf(t, "manifest-kind-elsewhere"))
}

func caseOf(t *testing.T, name string) tck.Case {
	t.Helper()
	c, ok := tck.CaseOf(name)
	if !ok {
		t.Fatalf("the conformance kit has no guest %q", name)
	}
	return c
}

// hostileKind returns the kind of a guest: each has one of its own, because no two
// controllers may write the same conditions. It is as long as that of the kit.
func hostileKind(i int) string { return fmt.Sprintf("Hostile%04d", i) }

func hostileResource(i int) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "thole.dev", Version: "v1", Resource: strings.ToLower(hostileKind(i)) + "s"}
}

// installHostile installs guests of the kit, with what their policies have: KIND in it is
// their kind, TIMEOUT their [hostileTimeout]. The primaries of guest i are of [hostileKind] i, whose CRD is installed.
func installHostile(t *testing.T, d directory, guests []string, policy string) {
	t.Helper()
	for i := range guests { // all before the first is awaited, which takes the API server a second
		_, err := objects.Resource(crds).Apply(t.Context(), hostileResource(i).Resource+".thole.dev", hostileCRD(t, i), metav1.ApplyOptions{FieldManager: "e2e"})
		must(t, err)
	}
	for i, name := range guests {
		awaitServed(t, hostileResource(i))
		d.installPolicy(name, strings.NewReplacer("KIND", hostileKind(i), "TIMEOUT", hostileTimeout(caseOf(t, name))).Replace(policy))
		d.install(name, bytes.ReplaceAll(conformanceGuest(t, name), []byte("Conformance"), []byte(hostileKind(i))))
	}
}

// hostileTimeout is what a guest has for each call: little if it ends by that alone. What
// it does before that must not reach it on a busy machine.
func hostileTimeout(c tck.Case) string {
	if c.Timed() {
		return "400ms"
	}
	return "10s"
}

func hostileCRD(t *testing.T, i int) *unstructured.Unstructured {
	t.Helper()
	crd := &unstructured.Unstructured{}
	must(t, yaml.Unmarshal([]byte(strings.NewReplacer("PLURAL", hostileResource(i).Resource, "KIND", hostileKind(i)).Replace(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: PLURAL.thole.dev}
spec:
  group: thole.dev
  scope: Namespaced
  names: {plural: PLURAL, kind: KIND}
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {status: {}}
      schema:
        openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
`)), &crd.Object))
	return crd
}

// A directory has hostile guests and a good plugin. Each guest fails at the step, or
// with the class, that the conformance kit states, which /plugins, the log and the
// metrics show. The good plugin works as if it were alone, and nothing is written of
// what the guests want to write or have printed.
func TestHostileGuestsFailAlone(t *testing.T) {
	t.Parallel()
	installCRD(t, "plugins/podmanager/crd.yaml")
	ns, d := namespace(t), newDirectory(t)
	loads := hostileLoads(t)
	for _, c := range loads {
		d.installPolicy(c.Name, "limits: {timeout: "+hostileTimeout(c)+"}")
		d.install(c.Name, c.Wasm())
	}
	installHostile(t, d, hostileRuns, `
limits: {timeout: TIMEOUT, memoryMiB: 17}
daemon: {}
allow: [{groups: [thole.dev], kinds: [KIND], verbs: [get, list, watch], namespaces: ['*']}]`)
	d.installPolicy("daemon-loop", "daemon: {}") // its fuel ends a step long before the default of 10 s
	for i := range hostileRuns {
		create(t, hostileResource(i), hostileKind(i), ns, "one", nil)
	}
	d.install("podmanager", podmanager(t, wasmbuild.TinyGo))
	p := start(t, d, ns, allowAll)
	await.Until(t, "podmanager runs", func() bool { return p.Plugin("podmanager").State == "running" })
	expectServed(t, ns, "beside-what-is-loaded")
	t.Run("loads", func(t *testing.T) { p.expectRefusedLoads(t, loads) })
	for i, name := range hostileRuns {
		t.Run(name, func(t *testing.T) {
			p.expectFailedCall(t, caseOf(t, name))
			p.expectNothingOf(t, get(t, hostileResource(i), ns, "one"), caseOf(t, name))
		})
	}
	expectServed(t, ns, "beside-what-has-failed")
	if failed := p.Log.Since(0).FailedRuns("plugin", "podmanager"); len(failed) != 0 {
		t.Errorf("runs of podmanager failed: %v", failed)
	}
	if s := p.Plugin("podmanager"); s.State != "running" || s.Revision != 1 {
		t.Errorf("podmanager is %+v", s)
	}
	p.stop()
}

// expectRefusedLoads expects that each guest is refused at the step, and for the reason,
// that the kit states.
func (p *process) expectRefusedLoads(t *testing.T, cases []tck.Case) {
	t.Helper()
	states := map[string]tholetest.Plugin{}
	await.Until(t, "the host is done with all of them", func() bool {
		all, _ := p.Plugins()
		for _, s := range all {
			states[s.Name] = s
		}
		return !slices.ContainsFunc(cases, func(c tck.Case) bool { s := states[c.Name]; return s.State == "" || s.State == "loading" })
	})
	metrics, refusals := p.Metrics(), map[string]int{}
	for _, line := range p.Log.Events("PluginRefused") {
		refusals[line.String("plugin")+" "+line.String("step")]++
	}
	for _, c := range cases {
		s := states[c.Name]
		if s.State != "failed" {
			t.Errorf("%s is not refused: %+v", c.Name, s)
			continue
		}
		if kitStep(s.FailedStep) != c.Step && c.Step != "" {
			t.Errorf("%s is refused at step %s: %s\nwant %s", c.Name, s.FailedStep, s.LastError, c.Step)
		}
		// What claims much is refused before the compiler sees it.
		if claims := strings.Contains(c.Name, "bomb") || strings.HasPrefix(c.Name, "huge-"); claims && c.Step == tck.StepCheck && s.FailedStep != "parse" {
			t.Errorf("%s is refused at step %s: %s", c.Name, s.FailedStep, s.LastError)
		}
		for _, part := range append(c.Mentions, string(c.Class)) {
			if !strings.Contains(s.LastError, part) {
				t.Errorf("lastError of %s is %s\nwant %s", c.Name, s.LastError, part)
			}
		}
		counted := metrics.Sum("thole_plugin_load_failures_total", "plugin", c.Name, "reason", s.FailedStep)
		if logged := refusals[c.Name+" "+s.FailedStep]; logged != 1 || counted != 1 {
			t.Errorf("the refusal of %s is logged %d times, and counted as %v", c.Name, logged, counted)
		}
	}
}

// kitStep returns the step of the kit for one of the host, which has several before any
// code of a guest runs.
func kitStep(step string) tck.Step {
	switch step {
	case "parse", "verify", "compile":
		return tck.StepCheck
	case "instantiate":
		return tck.StepStart
	}
	return tck.Step(step)
}

// expectFailedCall expects that a run, a step or a scan of a guest fails with the class
// that the kit states.
func (p *process) expectFailedCall(t *testing.T, c tck.Case) {
	t.Helper()
	name, class := c.Name, string(c.Class)
	await.Until(t, "it has failed with the class "+class, func() bool {
		s := p.Plugin(name)
		return s.State == "running" && s.Breaker != nil && s.Breaker.LastFault.Class == class
	})
	limit := "the deadline of the call passed"
	if c.Daemon {
		limit = "the fuel of the call is used up: more than 100000000: "
	}
	if message := p.Plugin(name).Breaker.LastFault.Message; c.Timed() && !strings.Contains(message, limit) {
		t.Errorf("it has ended for %q, not because %s", message, limit)
	}
	event, counted := "RunEnded", func() float64 {
		return p.Metrics().Sum("thole_reconcile_errors_total", "class", class, "controller", name+"/conformance")
	}
	if c.Scan {
		event, counted = "ScanEnded", func() float64 {
			return p.Metrics().Sum("thole_scans_total", "plugin", name, "result", "failed")
		}
	}
	await.Until(t, "it is counted", func() bool { return counted() > 0 })
	await.Until(t, "it is logged", func() bool { return len(p.Log.Events(event, "plugin", name, "class", class)) > 0 })
}

// expectNothingOf expects that an object has only what the host has written of a failed
// run, and that nobody but who reads the log sees what the guest has printed.
func (p *process) expectNothingOf(t *testing.T, o *unstructured.Unstructured, c tck.Case) {
	t.Helper()
	if ready := condition(o, "Ready"); !c.Scan && ready["status"] != "False" {
		t.Errorf("Ready is %v", ready)
	}
	if len(o.GetAnnotations()) != 0 || len(o.GetLabels()) != 0 || len(o.GetFinalizers()) != 0 && !c.Daemon {
		t.Errorf("the object is %v", o)
	}
	if c.Hides == "" {
		return
	}
	_, plugins := p.Get("/plugins")
	for where, text := range map[string]string{
		"the object": fmt.Sprint(o.Object), "its Events": fmt.Sprint(eventsAbout(t, o.GetNamespace(), o.GetName())),
		"/plugins": plugins, "the metrics": string(p.Metrics()),
	} {
		if strings.Contains(text, c.Hides) {
			t.Errorf("%s has what the guest has printed: %s", where, text)
		}
	}
	if logged := fmt.Sprint(p.Log.Events("RunEnded", "plugin", c.Name)); !strings.Contains(logged, c.Hides) {
		t.Errorf("the log does not have what the guest has printed: %s", logged)
	}
}
