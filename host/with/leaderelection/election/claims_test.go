package election

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/thole-dev/thole/host/internal/await"
)

// With 4 shards the plugin p has another one than with 7.
func shards(n int) func(*Config) { return func(c *Config) { c.Shards = n } }

// The replicas disagree on the Lease of the plugin, as in a rollout.
func TestReplicasWithDifferentLeasesForAPluginDoNotBothLeadIt(t *testing.T) {
	for name, c := range map[string]struct {
		shards int
		own    bool
		end    func(leader *replica)
		lease  func(*Config)
	}{
		"number of shards, stopped":   {7, false, func(leader *replica) { leader.stop() }, longLease},
		"number of shards, killed":    {7, false, func(leader *replica) { leader.cutOff() }, func(*Config) {}},
		"a Lease of its own, stopped": {4, true, func(leader *replica) { leader.stop() }, longLease},
		"a Lease of its own, killed":  {4, true, func(leader *replica) { leader.cutOff() }, func(*Config) {}}, // nobody else wants its Lease
	} {
		t.Run(name, func(t *testing.T) {
			config := cluster(t)
			a := newReplica(t, config, "a", c.lease)
			b := newReplica(t, config, "b", shards(c.shards), c.lease)
			b.join(c.own)
			if a.lease.Name == b.lease.Name {
				t.Fatalf("both have %s", a.lease.Name)
			}
			t.Cleanup(neverBoth(t, a, b))
			await.Until(t, "one of both leads", func() bool { return a.leads() || b.leads() })
			leader, other := a, b
			if b.leads() {
				leader, other = b, a
			}
			await.Until(t, "the other one knows who leads", func() bool { return other.lease.Leads() && other.plugin.Leader() == leader.Identity })
			leader.awaitRequests(5)
			if !leader.leads() || other.leads() {
				t.Errorf("the leader leads: %v, the other one: %v", leader.leads(), other.leads())
			}
			c.end(leader)
			await.Until(t, "the other one leads", other.leads)
			await.Until(t, "it leads its own Lease only", func() bool {
				held := other.Leases()
				return len(held) == 1 && held[0] == other.lease
			})
		})
	}
}

func TestReplicasThatDisagreeAndStartAtOnceAgreeOnALeader(t *testing.T) {
	config := cluster(t)
	for range 8 {
		all := []*replica{
			newReplica(t, config, "a"), newReplica(t, config, "b", shards(7)), newReplica(t, config, "c", shards(11)), newReplica(t, config, "d"),
		}
		all[3].join(true)
		var ends []func()
		for i, a := range all {
			for _, b := range all[:i] {
				ends = append(ends, neverBoth(t, a, b))
			}
		}
		leaders := func() (n int) {
			for _, r := range all {
				if r.leads() {
					n++
				}
			}
			return n
		}
		await.Until(t, "one leads", func() bool { return leaders() == 1 })
		for _, end := range ends {
			end()
		}
		for _, r := range all {
			r.stop()
		}
	}
}

// A policy is changed, and seen by one replica before the other.
func TestAPluginMovesToALeaseOfItsOwnAndBack(t *testing.T) {
	config := cluster(t)
	a := newReplica(t, config, "a", longLease)
	a.awaitLeads()
	b := newReplica(t, config, "b", longLease)
	t.Cleanup(neverBoth(t, a, b))
	for _, own := range []bool{true, false} {
		b.join(own)
		await.Until(t, "b leads the other Lease", b.lease.Leads)
		b.awaitRequests(3)
		if b.leads() || !a.leads() {
			t.Fatalf("a leads: %v, b leads: %v", a.leads(), b.leads())
		}
		before := a.plugin
		a.join(own)
		if before.Leads() {
			t.Error("a leads by the Lease that the plugin does not have any more")
		}
		await.Until(t, "b leads", b.leads)
		a, b = b, a
	}
}

// The write may still be on its way when its client has given up.
func TestALeaseIsNotLeftToAnotherReplicaWhileAWriteIsOnItsWay(t *testing.T) {
	config := cluster(t)
	a := newReplica(t, config, "a", longLease)
	a.awaitLeads()
	b := newReplica(t, config, "b", longLease)
	b.join(true)
	await.Until(t, "b leads the other Lease", b.lease.Leads)
	end, err := a.plugin.BeginWrite()
	if err != nil {
		t.Fatal(err)
	}
	before := a.plugin
	a.join(true)
	if _, err := before.BeginWrite(); err == nil {
		t.Error("a begins another write by the Lease that the plugin does not have any more")
	}
	b.awaitRequests(6)
	if b.leads() {
		t.Fatal("b leads")
	}
	end()
	await.Until(t, "one leads", func() bool { return a.leads() || b.leads() })
}

func TestAPluginThatIsForgottenIsLedByOthers(t *testing.T) {
	config := cluster(t)
	a := newReplica(t, config, "a", longLease)
	a.join(true)
	a.awaitLeads()
	b := newReplica(t, config, "b", longLease)
	await.Until(t, "b waits for a", func() bool { return b.plugin.Leader() == "a" && b.lease.Leads() })
	a.Keep(func(string) bool { return false })
	b.awaitLeads()
	await.Until(t, "a has given its Leases up", func() bool { return len(a.Leases()) == 0 })
	before := a.requests.Load()
	b.awaitRequests(5)
	if n := a.requests.Load() - before; n > 0 {
		t.Errorf("a goes on sending requests: %d", n)
	}
	a.join(true)
	b.stop()
	a.awaitLeads()
}

// Claims of a replica that does not hold the Lease are void, and so is what cannot be read.
func TestHostileClaimsKeepNobodyFromLeading(t *testing.T) {
	config := cluster(t)
	a := newReplica(t, config, "a", longLease)
	a.awaitLeads()
	leases := kubernetes.NewForConfigOrDie(config).CoordinationV1().Leases("default")
	for _, text := range []string{"", "{", "[]", `{"by":"","plugins":["p"]}`, `{"by":"b","plugins":["p"]}`, `{"by":1}`} {
		l, err := leases.Get(t.Context(), a.lease.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		other := l.DeepCopy()
		other.ObjectMeta = metav1.ObjectMeta{Name: "thole-shard-99", Annotations: map[string]string{ClaimsAnnotation: text}}
		_ = leases.Delete(t.Context(), other.Name, metav1.DeleteOptions{})
		if _, err := leases.Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		await.Until(t, "a has looked again", func() bool { return len(a.all()) >= 2 })
		b := newReplica(t, config, "b", shards(7), longLease)
		await.Until(t, "b waits for a", func() bool { return b.plugin.Leader() == "a" })
		b.stop()
	}
	// Those of its own Lease are corrected.
	if err := a.lease.Annotate(t.Context(), map[string]*string{ClaimsAnnotation: nil}); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the claims are written again", func() bool {
		l, err := leases.Get(t.Context(), a.lease.Name, metav1.GetOptions{})
		return err == nil && slices.Equal(claimed(l), []string{"p"})
	})
}

func TestWhatAnotherReplicaHasRolledBackIsNotLed(t *testing.T) {
	config := cluster(t)
	rejected := make(chan struct{})
	a := newReplica(t, config, "a", func(c *Config) {
		c.Rejected = func(plugin string) bool {
			select {
			case <-rejected:
				return false
			default:
				return plugin == "p"
			}
		}
	})
	await.Until(t, "a holds the Lease", a.lease.Leads)
	a.awaitRequests(3)
	if a.leads() {
		t.Error("a leads the plugin")
	}
	close(rejected)
	a.awaitLeads()
}

func TestLeasesAreSpreadOverReplicas(t *testing.T) {
	config := cluster(t)
	plugins := []string{"p", "a", "b", "c", "d", "e", "f", "g"} // in all four shards
	replicaOf := func(identity string) *replica {
		ready := func(c *Config) { c.Ready = func(string) bool { return true } }
		r := newReplica(t, config, identity, ready, longLease)
		for _, plugin := range plugins {
			r.Of(plugin, false)
		}
		return r
	}
	held := func(r *replica) (n int) {
		for _, l := range r.Leases() {
			if l.Leads() {
				n++
			}
		}
		return n
	}
	a := replicaOf("a")
	await.Until(t, "a leads all", func() bool { return held(a) == 4 })
	unready := newReplica(t, config, "unready", func(c *Config) { c.Ready = func(string) bool { return false } }, longLease)
	b := replicaOf("b")
	await.Until(t, "a and b lead two each", func() bool { return held(a) == 2 && held(b) == 2 })
	t.Cleanup(neverBoth(t, a, b))
	c := replicaOf("c")
	await.Until(t, "c leads one", func() bool { return held(c) == 1 })
	a.awaitRequests(8)
	if held(a)+held(b) != 3 || held(c) != 1 || held(unready) != 0 {
		t.Errorf("they lead %d, %d, %d, %d", held(a), held(b), held(c), held(unready))
	}
	unready.stop()
	a.stop()
	await.Until(t, "b and c lead two each", func() bool { return held(b) == 2 && held(c) == 2 })
	await.Until(t, "what was taken is not asked for", func() bool {
		return !slices.ContainsFunc(c.Leases(), func(l *Lease) bool { return l.Leads() && l.Annotations()[PreferredHolderAnnotation] != "" })
	})
}

func TestAReplicaThatIsAboutToStopTakesNothingOver(t *testing.T) {
	config := cluster(t)
	a := newReplica(t, config, "a", longLease)
	a.awaitLeads()
	b := newReplica(t, config, "b", longLease)
	await.Until(t, "b sees that a leads", func() bool { return b.lease.Holder() == "a" })
	a.Retire()
	b.Retire()
	await.Until(t, "b takes part in no election", func() bool { return len(b.Leases()) == 0 })
	a.awaitRequests(3)
	if !a.leads() {
		t.Error("a does not lead until it stops")
	}
	a.stop()
	c := newReplica(t, config, "c", longLease)
	c.awaitLeads()
}

// The replica that has asked for a Lease is gone when it is left to it.
func TestALeaseThatIsLeftToAReplicaThatIsGoneIsTakenByAnother(t *testing.T) {
	config := cluster(t)
	a := newReplica(t, config, "a", longLease)
	for _, plugin := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		a.Of(plugin, false)
	}
	await.Until(t, "a leads all", func() bool { // one of many is left to another replica
		return !slices.ContainsFunc(a.Leases(), func(l *Lease) bool { return !l.Leads() })
	})
	gone := "gone"
	leading := a.plugin.Leading()
	change := map[string]*string{PreferredHolderAnnotation: &gone}
	began := time.Now() // before it is left
	if err := a.lease.Annotate(t.Context(), change); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "a has left the Lease", func() bool { return leading != a.plugin.Leading() })
	a.awaitLeads()
	if after := time.Since(began); after < retryPeriod {
		t.Errorf("a took it back after %s", after)
	}
	if by := a.lease.Annotations()[PreferredHolderAnnotation]; by != "" {
		t.Errorf("it is asked for by %s", by)
	}
}
