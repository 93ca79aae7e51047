package leaderelection

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/devcluster"
	"github.com/thole-dev/thole/host/kube"
	"github.com/thole-dev/thole/host/runner"
	"github.com/thole-dev/thole/host/telemetry"
	"github.com/thole-dev/thole/host/with/leaderelection/lastgood"
)

func TestMain(m *testing.M) { devcluster.Main(m) }

// cluster returns an API server, of which the Leases and Secrets are removed when the replicas have ended.
func cluster(t *testing.T) *rest.Config {
	t.Helper()
	c := rest.CopyConfig(devcluster.Shared(t).Config)
	c.QPS = -1
	t.Cleanup(func() {
		client, ctx := kubernetes.NewForConfigOrDie(c), context.Background()
		if err := client.CoordinationV1().Leases("default").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			t.Error(err)
		}
		if err := client.CoreV1().Secrets("default").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			t.Error(err)
		}
	})
	return c
}

// replica is the capability of one replica, with what a test has of the host around it.
type replica struct {
	*replicas
	t    *testing.T
	part runner.Capability
	run  func(context.Context) error
	end  func() // calls Stop

	mu           sync.Mutex
	runs, good   string // digests, of the plugin p
	reconsidered int
	restarted    []string
}

// directory is the [runner.Directory] of a replica. The capability calls no other functions of it.
type directory struct {
	runner.Directory
	r *replica
}

func (d directory) Updated() bool { return true }

func (d directory) Statuses() []catalog.Status {
	s, _ := d.Status("p")
	return []catalog.Status{s}
}

func (d directory) Status(plugin string) (status catalog.Status, known bool) {
	d.r.mu.Lock()
	defer d.r.mu.Unlock()
	return catalog.Status{Name: plugin, Digest: d.r.runs, Good: d.r.good}, plugin == "p"
}

// set sets what runs of the plugin p, and what is good.
func (r *replica) set(digest, good string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs, r.good = digest, good
}

func start(t *testing.T, c *rest.Config, pod string) *replica {
	t.Helper()
	r := &replica{t: t}
	clients, err := kube.New(c)
	if err != nil {
		t.Fatal(err)
	}
	s := newHostSettings()
	s.LeaderElect, s.RetryPeriod.Duration = true, s.RetryPeriod.Duration/10
	r.part = newCapability(runner.Environment{
		Clients: clients, Metrics: telemetry.NewMetrics(), Logger: hclog.NewNullLogger(), Section: s,
		Pod: &corev1.ObjectReference{Namespace: "default", Name: pod}, CacheDir: t.TempDir(), MaxModule: 1 << 20,
	})
	r.replicas = r.part.Leaders.(*replicas)
	if r.run, err = r.part.Start(t.Context(), runner.Host{
		Directory: directory{r: r},
		Reconsider: func(string) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.reconsidered++
		},
		Restart: func(plugin, _ string) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.restarted = append(r.restarted, plugin)
		},
	}); err != nil {
		t.Fatal(err)
	}
	r.end = sync.OnceFunc(r.part.Stop)
	t.Cleanup(r.end)
	return r
}

// leads reports whether the replica leads the plugin p.
func (r *replica) leads() bool {
	lead := r.Lead("p")
	return lead != nil && lead.Leads()
}

// reconsiderations returns how often a plugin was to be looked at again.
func (r *replica) reconsiderations() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reconsidered
}

func (r *replica) join(policy config.Policy) runner.Lead {
	r.t.Helper()
	lead, err := r.Join("p", policy)
	if err != nil {
		r.t.Fatal(err)
	}
	return lead
}

func (r *replica) awaitRecord(what string, is func(catalog.Record) bool) {
	r.t.Helper()
	await.Until(r.t, what, func() bool {
		of, err := r.Recorded(&catalog.Module{Name: "p"})
		return err == nil && is(of)
	})
}

// module returns a module with its digest.
func module(text string) *catalog.Module {
	return &catalog.Module{Name: "p", Digest: lastgood.Digest([]byte(text)), Read: func() ([]byte, error) { return []byte(text), nil }}
}

func TestAHostWithOneReplicaHasNoLeader(t *testing.T) {
	if c := newCapability(runner.Environment{Section: newHostSettings()}); c.Leaders != nil || c.Start != nil || c.Ready != nil || c.Problem != nil {
		t.Errorf("%+v", c)
	}
}

func TestOutsideOfAPodTheNamespaceIsNamed(t *testing.T) {
	s := newHostSettings()
	s.LeaderElect = true
	c := newCapability(runner.Environment{Section: s, Logger: hclog.NewNullLogger()})
	if _, err := c.Start(t.Context(), runner.Host{}); err == nil || !strings.Contains(err.Error(), "--leader-elect-resource-namespace") {
		t.Error(err)
	}
	c.Stop()
}

// masterStatus returns the series of the metric, by Lease.
func (r *replica) masterStatus() map[string]float64 {
	r.t.Helper()
	families, err := r.env.Metrics.Registry.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	series := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "leader_election_master_status" {
				series[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
			}
		}
	}
	return series
}

func TestTheLeaseIsGivenUpWhenTheCapabilityStops(t *testing.T) {
	c := cluster(t)
	a := start(t, c, "a")
	if a.Lead("p") != nil || a.leads() {
		t.Error("a plugin has a lead before it is known")
	}
	lead := a.join(config.Policy{})
	await.Until(t, "the only replica leads", a.leads)
	if a.Lead("p") != lead || !strings.HasPrefix(lead.Leader(), "a_") || a.canLead() != nil || a.reconsiderations() == 0 {
		t.Errorf("%v leads, %v", lead.Leader(), a.canLead())
	}
	b := start(t, c, "b")
	b.join(config.Policy{})
	await.Until(t, "the other one knows who leads", func() bool { return b.Lead("p").Leader() == lead.Leader() })
	for r, want := range map[*replica]float64{a: 1, b: 0} {
		if all := r.masterStatus(); len(all) != 1 || all[a.election.Leases()[0].Name] != want {
			t.Errorf("the series are %v, want %v", all, want)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := a.run(ended); err != nil || !a.leads() {
		t.Errorf("a replica whose plugins are to stop leads until they have: %v", err)
	}
	a.end()
	await.Until(t, "the other one leads", b.leads)
	if a.leads() || len(a.restarted) != 1 || a.restarted[0] != "p" {
		t.Errorf("%q were started again", a.restarted)
	}
	if own := b.join(config.Policy{Sections: map[string]config.PolicySection{name: &Settings{OwnLease: true}}}); own == b.join(config.Policy{}) {
		t.Error("a plugin has no Lease of its own")
	}
}

// What the leader records is what the other replicas go by.
func TestWhatTheLeaderRecordsIsReadByOthers(t *testing.T) {
	c := cluster(t)
	good, bad := module("good"), module("bad")
	a := start(t, c, "a")
	a.join(config.Policy{})
	await.Until(t, "the first one leads", a.leads)
	a.Loaded(good)
	a.set(good.Digest, good.Digest)
	b := start(t, c, "b")
	b.join(config.Policy{})
	b.awaitRecord("what runs, and is good", func(r catalog.Record) bool { return r.Running == good.Digest && r.Good == good.Digest })
	if !b.OthersLead("p") || b.OthersLead("q") || a.OthersLead("p") {
		t.Error("it is not known who leads")
	}
	if text, err := b.Kept(t.Context(), "p", good.Digest); err != nil || string(text) != "good" {
		t.Errorf("%q is kept, %v", text, err)
	}
	if text, err := b.Kept(t.Context(), "p", bad.Digest); err == nil {
		t.Errorf("%q is kept", text)
	}
	for digest, want := range map[string]string{"": "the leader runs another module, ", bad.Digest: "the leader runs another module, ", good.Digest: ""} {
		if b.set(digest, ""); b.ready("p") != (want == "") || !strings.HasPrefix(b.part.Problem("p"), want) || (b.part.Problem("p") == "") != (want == "") {
			t.Errorf("with %q: ready %t, %q", digest, b.ready("p"), b.part.Problem("p"))
		}
	}
	if text := a.part.Problem("p"); text != "" {
		t.Errorf("the leader has %q", text)
	}

	before := b.reconsiderations()
	b.set(bad.Digest, "")
	a.Reject(bad, bad.Digest)
	b.awaitRecord("what was rolled back", func(r catalog.Record) bool { return len(r.Rejected) == 1 && r.Rejected[0] == bad.Digest })
	await.Until(t, "the standby looks at it again", func() bool { return b.reconsiderations() > before })
	if !b.isRejected("p", bad.Digest) || b.isRejected("p", good.Digest) || !b.rejected("p") {
		t.Error("what was rolled back is not rejected")
	}
	a.end()
	await.Until(t, "the other one has the Lease", func() bool { return b.election.Leases()[0].Leads() })
	if b.leads() {
		t.Error("a replica leads with what was rolled back")
	}
	b.set(good.Digest, "")
	await.Until(t, "it leads with the good one", b.leads)
	b.RetryRefused()
	if of, err := b.Recorded(bad); err != nil || of.Running != bad.Digest || len(of.Rejected) > 0 || b.isRejected("p", bad.Digest) {
		t.Errorf("%+v, %v", of, err)
	}
	b.set(bad.Digest, "")
	await.Until(t, "the others may run it", func() bool {
		of := b.recordOf(b.election.Plugin("p").Lease, "p")
		return of.Running == bad.Digest && len(of.Rejected) == 0
	})
}
