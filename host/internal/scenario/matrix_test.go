package scenario

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/thole-dev/thole/host/internal/devcluster"
)

// A disturbance is what a script is run with.
type disturbance struct {
	name   string
	rules  string // of the proxy, which begin when the host runs
	before string // rules that begin before the host starts
	// supervised is set if the host is killed.
	supervised bool
	// removesKind: the CRD is removed and added, and with it all objects. Only the
	// end state is compared.
	removesKind bool
	// optional: the scenario may be over before the fault takes place.
	optional bool
	// told: /readyz or /plugins must report the fault.
	told bool
	// logged is what the log must say of the fault; "": anything.
	logged string
	// limit is that of each wait; 0 is recoveryLimit.
	limit time.Duration

	// These are for TestSoakReplicaSetFaults.

	// losesEvents is set if the host does not learn of some writes that they were performed.
	losesEvents bool
	// swapAfter is after how many writes another build of the plugin is installed; 0 is never.
	swapAfter int
}

const (
	recoveryLimit = 90 * time.Second
	silenceLimit  = 150 * time.Second
)

// stalledLog is logged of a watch that has not begun in time. One that has begun and
// shows nothing is not told from one of a server without changes and bookmarks.
const stalledLog = `"reason":"Stalled"`

// TestSoakFaultMatrix runs the base scenario of each plugin, testdata/matrix, without
// faults and then with each fault. Every time the objects must end up the same, after
// as many creations and deletions. Without SOAK it runs a sample for one plugin.
func TestSoakFaultMatrix(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	for _, plugin := range []string{"podmanager", "configsync", "ttl", "replicaset"} {
		if os.Getenv("SOAK") == "" && plugin != "podmanager" {
			continue
		}
		t.Run(plugin, func(t *testing.T) {
			s := suite
			if plugin == "replicaset" {
				s = newReplicaSetSuite(t)
			}
			base := s.runMatrix(t, plugin, disturbance{name: "undisturbed"}, nil)
			if t.Failed() {
				return
			}
			t.Logf("%v, %d requests", base.numbers, len(base.requests))
			for _, d := range disturbances(plugin, base) {
				s.runMatrix(t, plugin, d, &base)
			}
		})
	}
}

// disturbances returns all faults of a plugin whose base scenario has sent requests;
// without SOAK one of each sort.
func disturbances(plugin string, base outcome) []disturbance {
	resources, verbs, writes := traffic(base)
	on := strings.Join(resources, ",")
	var all []disturbance
	for k := range writes {
		all = append(all,
			disturbance{name: fmt.Sprintf("crash after write %d", k+1), rules: fmt.Sprintf("write %s kill after=%d times=1", on, k), supervised: true, optional: true},
			disturbance{name: fmt.Sprintf("reply of write %d lost", k+1), rules: fmt.Sprintf("write %s lost after=%d times=1", on, k), optional: true})
	}
	for _, verb := range verbs {
		for _, fault := range []string{"status=409", "status=422", "status=429 retry-after=1s", "status=500", "status=504", "half", "cut", "hang"} {
			d := disturbance{name: verb + " " + fault, rules: fmt.Sprintf("%s %s %s times=1", verb, on, fault)}
			if verb == "watch" || verb == "list" {
				d.rules, d.before = "", d.rules
			}
			if verb == "watch" && fault == "hang" {
				d.limit, d.logged = silenceLimit, stalledLog
			}
			all = append(all, d)
		}
	}
	n := watches(base)
	all = append(all,
		disturbance{name: "replies lost and watches late", rules: fmt.Sprintf("watch %s delay=2s\nwrite %s lost times=2", on, on)},
		disturbance{name: "watch gone", rules: fmt.Sprintf("watch %s gone times=%d", on, n)},
		disturbance{name: "watch frozen", rules: fmt.Sprintf("watch %s freeze times=%d", on, n), limit: silenceLimit},
		disturbance{name: "watch bookmarks only", rules: fmt.Sprintf("watch %s bookmarks-only times=%d for=60s", on, n)},
		disturbance{
			name:  "watch forbidden for a minute",
			rules: fmt.Sprintf("watch %s cut times=%d\nget,list,watch %s status=403 for=60s", on, n, on), told: true,
		})
	if plugin == "podmanager" {
		all = append(all, disturbance{name: "CRD removed and added", removesKind: true})
	}
	if os.Getenv("SOAK") == "" {
		all = sample(all)
	}
	return all
}

// sample keeps one disturbance of each sort that does not take long.
func sample(all []disturbance) []disturbance {
	names := []string{
		"crash after write 2", "reply of write 2 lost", "apply status=409", "patch status=500",
		"apply status=429 retry-after=1s", "apply half", "watch gone",
	}
	return slices.DeleteFunc(all, func(d disturbance) bool { return !slices.Contains(names, d.name) })
}

// traffic returns which resources a run was about, the verbs of its requests, and the
// number of its writes.
func traffic(o outcome) (resources, verbs []string, writes int) {
	seenResources, seenVerbs := map[string]bool{}, map[string]bool{}
	for _, r := range o.requests {
		if r.Resource == "" || r.Resource == "events" {
			continue
		}
		resource := r.Resource
		if r.Group != "" {
			name, sub, ok := strings.Cut(resource, "/")
			if resource = name + "." + r.Group; ok {
				resource += "/" + sub
			}
		}
		seenResources[resource], seenVerbs[r.Verb] = true, true
		if slices.Contains(verbGroups["write"], r.Verb) {
			writes++
		}
	}
	return slices.Sorted(maps.Keys(seenResources)), slices.Sorted(maps.Keys(seenVerbs)), writes
}

// watches returns how many resources a run has watched.
func watches(o outcome) int {
	watched := map[string]bool{}
	for _, r := range o.requests {
		if r.Verb == "watch" {
			watched[r.Group+"/"+r.Resource] = true
		}
	}
	return len(watched)
}

// run is one run of a base scenario.
type run struct {
	disturbance
	base *outcome // nil: it is this run
	got  outcome
	told bool // a fault, by /readyz or /plugins

	resources []string // whose objects are compared
	counter   *counter
}

// runMatrix runs the base scenario of a plugin and returns its outcome.
func (s *Suite) runMatrix(t *testing.T, plugin string, d disturbance, base *outcome) outcome {
	r := &run{disturbance: d, base: base}
	t.Run(d.name, func(t *testing.T) {
		p := s.Params("")
		p.Files = []string{filepath.Join("testdata", "matrix", plugin+".txtar")}
		setup := p.Setup
		p.Setup = func(env *testscript.Env) error {
			return errors.Join(setup(env), r.setup(env.Values[scriptKey{}].(*script)))
		}
		for name, c := range map[string]command{
			"record":   {usage: "RESOURCE ...", run: r.record},
			"inject":   {usage: "", run: r.inject},
			"recreate": {usage: "FILE", run: r.recreate},
			"compare":  {usage: "", run: r.compare},
		} {
			p.Cmds[name] = c.command(name)
		}
		testscript.Run(t, p)
	})
	return r.got
}

// setup lets the script use the shared control plane as its own: no other script
// runs. But objects of earlier runs would keep a CRD, by their finalizers.
func (r *run) setup(s *script) (err error) {
	if r.removesKind {
		s.own = devcluster.Start(s.tb)
	} else {
		s.own, err = s.Suite.cluster()
	}
	if r.base != nil {
		s.limit = recoveryLimit
	}
	if r.limit > 0 {
		s.limit = r.limit
	}
	s.polled = func() { r.observe(s) }
	return err
}

// record begins to count, and the faults that must be there before the host.
func (r *run) record(s *script, resources []string) (err error) {
	r.resources = resources
	if r.counter, err = s.count(resources); err != nil {
		return err
	}
	return s.proxy.AddRules(r.before)
}

// inject begins the other faults.
func (r *run) inject(s *script, _ []string) error {
	if r.supervised {
		if err := s.superviseHost(nil); err != nil {
			return err
		}
	}
	return s.proxy.AddRules(r.rules)
}

// recreate removes and adds the CRD if that is the fault, and creates its objects
// again from a file.
func (r *run) recreate(s *script, args []string) error {
	if !r.removesKind {
		return nil
	}
	crd := filepath.Join(s.Plugins[len(s.Plugins)-1], "podmanager", "crd.yaml")
	const name = "crd/podmanagers.example.thole.dev"
	if err := remove(s, []string{name}); err != nil {
		return err
	}
	gone, err := absent(s, newFlags(), []string{name})
	if err == nil {
		err = s.await(wait{}, gone)
	}
	if err != nil {
		return err
	}
	return apply(s, append([]string{crd}, args...))
}

// observe notes whether the host reports that something is wrong.
func (r *run) observe(s *script) {
	if !r.disturbance.told || r.told {
		return
	}
	status, _, err := s.readyz()
	if err != nil {
		return
	}
	host := s.hosts[len(s.hosts)-1]
	all, ok := host.Plugins()
	r.told = status != http.StatusOK || ok && len(all[0].CannotFollow) > 0
}

// compare waits until objects and numbers are those of the base run and do not change
// any more.
func (r *run) compare(s *script, _ []string) error {
	err := s.await(wait{during: 2 * time.Second}, func() error {
		want := r.got
		if r.base != nil {
			want = *r.base
		}
		state, err := s.snapshot(r.resources)
		if err != nil {
			return err
		}
		r.got = outcome{state, r.counter.get(), s.proxy.Requests()}
		if d := difference(state, want.state); d != "" {
			return errors.New(d)
		}
		if !r.removesKind && !maps.Equal(r.got.numbers, want.numbers) {
			return fmt.Errorf("creations and deletions were %v, expected %v; the requests were:%s", r.got.numbers, want.numbers, summary(r.got.requests))
		}
		return nil
	})
	if err != nil || r.base == nil {
		return err
	}
	return r.tookPlace(s)
}

// tookPlace returns an error if a fault was not injected, or not reported.
func (r *run) tookPlace(s *script) error {
	if r.disturbance.told && !r.told {
		return errors.New("neither /readyz nor /plugins has reported the fault")
	}
	if !strings.Contains(s.log(), r.logged) {
		return fmt.Errorf("the log has not reported the fault by %s", r.logged)
	}
	for _, rule := range s.proxy.Rules() {
		if rule.Applied == 0 && !r.optional {
			return fmt.Errorf("the fault %q did not take place", rule.Rule)
		}
	}
	return nil
}
