package scenario

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/tholetest"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// replicaSetFaults returns what the scripts of testdata/replicaset are run with. What they expect must hold all
// the same.
func replicaSetFaults() []disturbance {
	const writes, watches = "write pods,replicasets.apps/status ", "watch pods,replicasets.apps "
	// everyOther returns rules for the first write, the third one, and so on.
	everyOther := func(fault string) string {
		var rules strings.Builder
		for k := range 5 {
			fmt.Fprintf(&rules, "%s%s after=%d times=1\n", writes, fault, 2*k)
		}
		return rules.String()
	}
	return []disturbance{
		{name: "first replies lost", rules: writes + "lost times=3", losesEvents: true},
		{name: "every other reply lost", rules: everyOther("lost"), losesEvents: true},
		{name: "every other reply half", rules: everyOther("half"), losesEvents: true},
		{name: "first writes cut", rules: writes + "cut times=3"},
		{name: "every other write 409", rules: everyOther("status=409")},
		{name: "first writes 429", rules: writes + "status=429 retry-after=1s times=3"},
		{name: "every other write 500", rules: everyOther("status=500")},
		{name: "watches cut", rules: watches + "cut times=4"},
		{name: "watches gone", rules: watches + "gone times=4"},
		{name: "pods seen late", rules: "watch pods delay=1s"},
		{name: "killed after the first write", rules: writes + "kill times=1", supervised: true, losesEvents: true},
		{name: "killed after every other write", rules: everyOther("kill"), supervised: true, losesEvents: true},
		{name: "replaced at the first write", rules: writes + "delay=200ms", swapAfter: 1},
		{name: "replaced at the third write", rules: writes + "delay=200ms", swapAfter: 3},
	}
}

// TestSoakReplicaSetFaults runs the scripts of testdata/replicaset with each of replicaSetFaults. Without
// SOAK it runs a sample.
func TestSoakReplicaSetFaults(t *testing.T) {
	s := newReplicaSetSuite(t)
	for _, compiler := range wasmbuild.Toolchains {
		for _, f := range replicaSetFaults() {
			p := s.faultParams(compiler, f)
			if os.Getenv("SOAK") == "" {
				if compiler != wasmbuild.TinyGo || f.name != "every other reply lost" && f.name != "replaced at the third write" {
					continue
				}
				p.Dir, p.Files = "", []string{filepath.Join(p.Dir, "labels.txtar"), filepath.Join(p.Dir, "scale.txtar")}
			}
			t.Run(fmt.Sprintf("%s/%s", compiler, f.name), func(t *testing.T) { testscript.Run(t, p) })
		}
	}
}

// faultParams returns the parameters for the scripts with a fault.
func (s *Suite) faultParams(compiler wasmbuild.Toolchain, f disturbance) testscript.Params {
	p := s.compilerParams("replicaset", compiler)
	p.Condition = inFaults(true)
	setup := p.Setup
	p.Setup = func(env *testscript.Env) error {
		err := setup(env)
		run := &faultRun{script: env.Values[scriptKey{}].(*script), fault: f, other: otherThan(compiler)}
		run.polled = run.disturb
		env.Defer(run.end)
		return err
	}
	if f.losesEvents {
		p.Cmds["event"] = command{check: warningEvent}.command("event")
	}
	return p
}

// warningEvent is event for what has failed, which is told again. Of what was done there is no Event if the
// host does not learn of it, as from the controller of Kubernetes.
func warningEvent(s *script, flags *flag.FlagSet, args []string) (func() error, error) {
	check, err := event(s, flags, args)
	if slices.Contains(args, "Normal") {
		check = nil
	}
	return check, err
}

// faultRun is a script that runs with a fault.
type faultRun struct {
	*script
	fault          disturbance
	other          wasmbuild.Toolchain // of the build that replaces the first one
	begun, swapped bool
}

// disturb begins the fault once there is a host, and replaces the plugin when it is time. Then the script
// waits until the other build runs.
func (r *faultRun) disturb() {
	if len(r.hosts) == 0 {
		return
	}
	if !r.begun {
		r.begun, r.supervised = true, r.fault.supervised
		if err := r.proxy.AddRules(r.fault.rules); err != nil {
			r.tb.Fatal(err)
		}
	}
	writes := filter{verbs: verbGroups["write"], resources: []string{"pods", "replicasets/*"}}
	if r.fault.swapAfter == 0 || r.swapped || writes.count(r.proxy.Requests()) < r.fault.swapAfter {
		return
	}
	r.swapped = true
	if err := r.installPlugin("replicaset", "", r.other); err != nil {
		r.tb.Fatal(err)
	}
	await.Until(r.tb, "the other build runs", func() bool { return r.hosts[len(r.hosts)-1].Running("replicaset", 2) })
}

// end fails a script that has passed if the fault did not take place, or Events are missing.
func (r *faultRun) end() {
	if r.tb.Failed() {
		return
	}
	sent := r.proxy.Requests()
	took := slices.ContainsFunc(sent, func(request tholetest.Request) bool {
		return slices.ContainsFunc(strings.Split(request.Rule, "; "), func(rule string) bool {
			return rule != "" && strings.Contains(r.fault.rules, rule)
		})
	})
	if !took || r.swapped != (r.fault.swapAfter > 0) {
		r.tb.Errorf("the fault did not take place; the requests were:%s", summary(sent))
	}
	if r.fault.supervised {
		return // the host may be killed before it emits Events
	}
	if err := r.await(wait{}, func() error { return r.checkEvents(sent) }); err != nil {
		r.tb.Error(err)
	}
}

// mostEvents is how many Events about one object with one reason the client library sends in ten minutes
// before it combines them.
const mostEvents = 10

// checkEvents checks that there is an Event for each pod that was created or deleted, as far as the host has
// had a reply.
func (r *faultRun) checkEvents(sent []tholetest.Request) error {
	all, err := r.api.clients.CoreV1().Events(r.namespace).List(r.tb.Context(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	emitted := map[string]bool{}
	for _, e := range all.Items {
		emitted[e.Message] = true
	}
	var wanted, missing []string
	for _, request := range sent {
		message := eventOf(request)
		if message == "" {
			continue
		}
		if wanted = append(wanted, message); !emitted[message] {
			missing = append(missing, message)
		}
	}
	if len(missing) > 0 && len(wanted) <= mostEvents {
		return fmt.Errorf("there are no Events %q", missing)
	}
	return nil
}

// eventOf returns the message of the Event for a write of a pod whose reply the host has, "" for any other request.
func eventOf(request tholetest.Request) string {
	replied := request.Code/100 == 2 && !strings.Contains(request.Rule, "half")
	switch {
	case request.Resource != "pods" || !replied:
		return ""
	case request.Created:
		return "Created pod: " + request.Name
	case request.Verb == "delete":
		return "Deleted pod: " + request.Name
	}
	return ""
}
