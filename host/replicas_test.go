package host

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/internal/await"
)

// cuttable is a replica whose requests can be kept from being sent, as if it were killed.
type cuttable struct {
	*runningHost
	cut func()
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func startCuttable(t *testing.T, cluster *rest.Config) *cuttable {
	t.Helper()
	cut, healed := make(chan struct{}), make(chan struct{})
	own := rest.CopyConfig(cluster)
	own.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			select {
			case <-cut:
				select {
				case <-healed:
				case <-request.Context().Done():
					return nil, request.Context().Err()
				}
			default:
			}
			return next.RoundTrip(request)
		})
	})
	r := &cuttable{start(t, own, fastElection), sync.OnceFunc(func() { close(cut) })}
	t.Cleanup(func() { close(healed) })
	return r
}

// variant returns a module of other code: with a custom section, so that it has another digest.
func variant(wasm []byte, name byte) (module []byte, digest string) {
	module = append(slices.Clip(wasm), 0, 2, 1, name)
	sum := sha256.Sum256(module)
	return module, hex.EncodeToString(sum[:])
}

// rejectedCluster returns a cluster with a leader that is about to roll a revision back.
func rejectedCluster(t *testing.T) (cluster *rest.Config, leader *cuttable, good, bad []byte, badDigest string) {
	t.Helper()
	cluster, good, _ = podManagerCluster(t)
	bad, badDigest = variant(good, 'b')
	leader = startCuttable(t, cluster)
	leader.install("podmanager", good)
	leader.awaitState(catalog.Running)
	return cluster, leader, good, bad, badDigest
}

func (r *runningHost) awaitDigest(digest string) {
	r.t.Helper()
	await.Until(r.t, "the digest runs", func() bool { return r.status().Digest == digest })
}

// rollBack does what dispatch does when the revision is worse than the one before it.
func (r *runningHost) rollBack() {
	r.t.Helper()
	r.host.catalog.RollBack("podmanager", r.status().Revision, "it fails for all objects")
	r.awaitState(catalog.Degraded)
}

// awaitRecorded waits until the other replicas can know that a module was rolled back.
func (r *runningHost) awaitRecorded(digest string) {
	r.t.Helper()
	lease := r.host.replicas.election.Plugin("podmanager").Lease
	await.Until(r.t, "it has recorded what it has rolled back", func() bool {
		return slices.Contains(r.host.replicas.recordOf(lease, "podmanager").Rejected, digest)
	})
}

// keepSilent keeps a replica from recording anything until release is called.
func (r *runningHost) keepSilent() (release func()) {
	r.host.replicas.recording.Lock()
	return sync.OnceFunc(r.host.replicas.recording.Unlock)
}

// leads reports whether the replica leads the plugin.
func (r *runningHost) leads() bool {
	p := r.host.replicas.election.Plugin("podmanager")
	return p != nil && p.Leads()
}

func TestAStandbyThatTakesOverRunsWhatTheLeaderHasRolledBackTo(t *testing.T) {
	cluster, leader, good, bad, badDigest := rejectedCluster(t)
	standby := start(t, cluster, fastElection)
	standby.install("podmanager", good)
	standby.awaitState(catalog.Standby)
	goodDigest := standby.status().Digest
	for _, r := range []*runningHost{leader.runningHost, standby} {
		r.install("podmanager", bad)
		r.awaitDigest(badDigest)
	}
	leader.rollBack()
	leader.awaitRecorded(badDigest)
	leader.cut()
	standby.awaitDigest(goodDigest)
	await.Until(t, "the standby takes over", standby.leads)
	standby.awaitState(catalog.Degraded)
	if s := standby.status(); s.Digest != goodDigest || s.Loads != 3 || s.Rejected != badDigest {
		t.Errorf("the standby has %+v", s)
	}
	// The administrator tries it again.
	standby.host.RetryRefused()
	standby.awaitDigest(badDigest)
	if standby.host.replicas.isRejected("podmanager", badDigest) {
		t.Error("what the administrator tries again is not led")
	}
	lease := standby.host.replicas.election.Plugin("podmanager").Lease
	await.Until(t, "others may run it too", func() bool {
		recorded := standby.host.replicas.recordOf(lease, "podmanager")
		return recorded.Running == badDigest && len(recorded.Rejected) == 0
	})
}

func TestAReplicaThatStartedAfterTheRollbackDoesNotRunTheRevision(t *testing.T) {
	t.Run("by the same Lease", func(t *testing.T) { startAfterRollback(t, fastElection, true) })
	t.Run("by another Lease", func(t *testing.T) {
		startAfterRollback(t, func(c *config.Config) { fastElection(c); c.LeaderElection.Shards = 9 }, false)
	})
}

// The leader has not recorded yet which module is good: it looks once in a second.
func TestAReplicaThatStartedAfterTheRollbackRunsTheGoodModuleOnceThatIsRecorded(t *testing.T) {
	for name, shards := range map[string]int{"by the same Lease": 4, "by another Lease": 9} {
		t.Run(name, func(t *testing.T) {
			cluster, leader, _, bad, badDigest := rejectedCluster(t)
			leader.install("podmanager", bad)
			leader.awaitDigest(badDigest)
			leader.rollBack()
			leader.awaitRecorded(badDigest)
			goodDigest := leader.status().Digest
			release := leader.keepSilent()
			defer release()
			unrecorded := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, annotationPrefix+"podmanager", *annotationOf(catalog.Record{Rejected: []string{badDigest}}))
			election := leader.host.replicas.election
			_, err := kubernetes.NewForConfigOrDie(cluster).CoordinationV1().Leases(election.Namespace).
				Patch(t.Context(), election.Plugin("podmanager").Lease.Name, types.MergePatchType, unrecorded, metav1.PatchOptions{})
			if err != nil {
				t.Fatal(err)
			}
			late := start(t, cluster, func(c *config.Config) {
				fastElection(c)
				c.LeaderElection.Shards = shards
			})
			late.install("podmanager", bad)
			await.Until(t, "it refuses the module", func() bool { return strings.Contains(late.status().LastError, byOtherText) })
			if s := late.status(); s.Digest != "" {
				t.Fatalf("it has %+v, and nobody has recorded what is good", s)
			}
			release()
			late.awaitDigest(goodDigest)
		})
	}
}

func startAfterRollback(t *testing.T, elect func(*config.Config), sameLease bool) {
	t.Helper()
	cluster, leader, _, bad, badDigest := rejectedCluster(t)
	leader.install("podmanager", bad)
	leader.awaitDigest(badDigest)
	leader.rollBack()
	leader.awaitRecorded(badDigest)
	goodDigest := leader.status().Digest
	late := start(t, cluster, elect)
	late.install("podmanager", bad)
	late.awaitDigest(goodDigest) // which the leader keeps in a Secret
	leaseOf := func(r *runningHost) string { return r.host.replicas.election.Plugin("podmanager").Lease.Name }
	if (leaseOf(late) == leaseOf(leader.runningHost)) != sameLease {
		t.Fatalf("the Leases are %s and %s", leaseOf(leader.runningHost), leaseOf(late))
	}
	await.Until(t, "it shows who leads", func() bool { return late.status().Leader == leader.status().Leader })
	if s := late.status(); s.Rejected != badDigest || !strings.Contains(s.LastError, byOtherText) {
		t.Errorf("it has %+v", s)
	}
	if r := late.host.replicas; !r.isRejected("podmanager", badDigest) || r.isRejected("podmanager", goodDigest) || r.ready("podmanager") != sameLease {
		t.Error("it takes the module that was rolled back for the one that the leader runs")
	}
	leader.cut()
	await.Until(t, "the other takes over", late.leads)
	lease := late.host.replicas.election.Plugin("podmanager").Lease
	await.Until(t, "it records what runs", func() bool { return late.host.replicas.recordOf(lease, "podmanager").Running == goodDigest })
	if s := late.status(); s.State != catalog.Degraded || s.Rejected != badDigest || s.Loads == 0 {
		t.Errorf("it has %+v", s)
	}
	// Another module runs, and after that the one that was rolled back runs again.
	other, otherDigest := variant(bad, 'c')
	late.install("podmanager", other)
	late.awaitDigest(otherDigest)
	if recorded := late.host.replicas.recordOf(lease, "podmanager"); !slices.Contains(recorded.Rejected, badDigest) {
		t.Errorf("it records %+v, and replicas with the file from before may run that", recorded)
	}
	late.install("podmanager", bad)
	late.awaitDigest(badDigest)
}

const byOtherText = "another replica has rolled it back"
