package host

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
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
	"github.com/thole-dev/thole/host/internal/await"
)

// cuttable is a replica whose requests can be kept from being sent, as if it were killed.
type cuttable struct {
	*runningHost
	cut func()

	records  sync.RWMutex // held while one is sent
	isSilent bool         // guarded by records
}

// silence keeps the replica from recording anything until release is called.
func (r *cuttable) silence() (release func()) {
	set := func(silent bool) {
		r.records.Lock()
		defer r.records.Unlock()
		r.isSilent = silent
	}
	set(true)
	return func() { set(false) }
}

// record sends a request, which is one that records something if it is the PATCH of a Lease.
func (r *cuttable) record(request *http.Request, next http.RoundTripper) (*http.Response, error) {
	if request.Method != http.MethodPatch || !strings.Contains(request.URL.Path, "/leases/") {
		return next.RoundTrip(request)
	}
	r.records.RLock()
	defer r.records.RUnlock()
	if r.isSilent {
		return nil, errors.New("the replica is silent")
	}
	return next.RoundTrip(request)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func startCuttable(t *testing.T, cluster *rest.Config) *cuttable {
	t.Helper()
	cut, healed := make(chan struct{}), make(chan struct{})
	own, r := rest.CopyConfig(cluster), &cuttable{}
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
			return r.record(request, next)
		})
	})
	r.runningHost, r.cut = startReplica(t, own, ""), sync.OnceFunc(func() { close(cut) })
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

const recordAnnotation = "plugins.thole.dev/podmanager"

// records returns what leaders have recorded of the plugin, by the names of the Leases.
func records(t *testing.T, cluster *rest.Config) map[string]catalog.Record {
	t.Helper()
	leases, err := kubernetes.NewForConfigOrDie(cluster).CoordinationV1().Leases("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]catalog.Record{}
	for _, lease := range leases.Items {
		if text, recorded := lease.Annotations[recordAnnotation]; recorded {
			var of catalog.Record
			if err := json.Unmarshal([]byte(text), &of); err != nil {
				t.Fatal(err)
			}
			all[lease.Name] = of
		}
	}
	return all
}

// awaitRecord waits until a leader has recorded something, and returns the Lease.
func awaitRecord(t *testing.T, cluster *rest.Config, what string, is func(catalog.Record) bool) (lease string) {
	t.Helper()
	await.Until(t, "a leader has recorded "+what, func() bool {
		for name, of := range records(t, cluster) {
			if is(of) {
				lease = name
				return true
			}
		}
		return false
	})
	return lease
}

// awaitRejected waits until the other replicas can read that a module was rolled back, and returns the Lease.
func awaitRejected(t *testing.T, cluster *rest.Config, digest string) (lease string) {
	t.Helper()
	return awaitRecord(t, cluster, "what it has rolled back", func(of catalog.Record) bool { return slices.Contains(of.Rejected, digest) })
}

// leads reports whether the replica leads the plugin.
func (r *runningHost) leads() bool { return directory{r.host}.Leads("podmanager") }

func TestAStandbyThatTakesOverRunsWhatTheLeaderHasRolledBackTo(t *testing.T) {
	cluster, leader, good, bad, badDigest := rejectedCluster(t)
	standby := startReplica(t, cluster, "")
	standby.install("podmanager", good)
	standby.awaitState(catalog.Standby)
	goodDigest := standby.status().Digest
	for _, r := range []*runningHost{leader.runningHost, standby} {
		r.install("podmanager", bad)
		r.awaitDigest(badDigest)
	}
	leader.rollBack()
	awaitRejected(t, cluster, badDigest)
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
	awaitRecord(t, cluster, "that others may run it too", func(of catalog.Record) bool {
		return of.Running == badDigest && len(of.Rejected) == 0
	})
	if !standby.leads() {
		t.Error("what the administrator tries again is not led")
	}
}

func TestAReplicaThatStartedAfterTheRollbackDoesNotRunTheRevision(t *testing.T) {
	t.Run("by the same Lease", func(t *testing.T) { startAfterRollback(t, "", true) })
	t.Run("by another Lease", func(t *testing.T) { startAfterRollback(t, otherShards, false) })
}

// The leader has not recorded yet which module is good: it looks once in a second.
func TestAReplicaThatStartedAfterTheRollbackRunsTheGoodModuleOnceThatIsRecorded(t *testing.T) {
	for name, shards := range map[string]string{"by the same Lease": "", "by another Lease": otherShards} {
		t.Run(name, func(t *testing.T) {
			cluster, leader, _, bad, badDigest := rejectedCluster(t)
			leader.install("podmanager", bad)
			leader.awaitDigest(badDigest)
			leader.rollBack()
			lease := awaitRejected(t, cluster, badDigest)
			goodDigest := leader.status().Digest
			release := leader.silence()
			defer release()
			noGood := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, recordAnnotation, fmt.Sprintf(`{"rejected":[%q]}`, badDigest))
			_, err := kubernetes.NewForConfigOrDie(cluster).CoordinationV1().Leases("default").
				Patch(t.Context(), lease, types.MergePatchType, noGood, metav1.PatchOptions{})
			if err != nil {
				t.Fatal(err)
			}
			late := startReplica(t, cluster, shards)
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

// otherShards gives the plugin another Lease.
const otherShards = "shards: 9"

func startAfterRollback(t *testing.T, shards string, sameLease bool) {
	t.Helper()
	cluster, leader, _, bad, badDigest := rejectedCluster(t)
	leader.install("podmanager", bad)
	leader.awaitDigest(badDigest)
	leader.rollBack()
	before := awaitRejected(t, cluster, badDigest)
	goodDigest := leader.status().Digest
	late := startReplica(t, cluster, shards)
	late.install("podmanager", bad)
	late.awaitDigest(goodDigest) // which the leader keeps in a Secret
	await.Until(t, "it shows who leads", func() bool { return late.status().Leader == leader.status().Leader })
	if s := late.status(); s.Rejected != badDigest || !strings.Contains(s.LastError, byOtherText) {
		t.Errorf("it has %+v", s)
	}
	leader.cut()
	await.Until(t, "the other takes over", late.leads)
	now := before
	await.Until(t, "it records what runs", func() bool {
		all := records(t, cluster)
		for lease := range all {
			if !sameLease && lease != before {
				now = lease
			}
		}
		return all[now].Running == goodDigest && (now == before) == sameLease
	})
	if s := late.status(); s.State != catalog.Degraded || s.Rejected != badDigest || s.Loads == 0 {
		t.Errorf("it has %+v", s)
	}
	// Another module runs, and after that the one that was rolled back runs again.
	other, otherDigest := variant(bad, 'c')
	late.install("podmanager", other)
	late.awaitDigest(otherDigest)
	if recorded := records(t, cluster)[now]; !slices.Contains(recorded.Rejected, badDigest) {
		t.Errorf("it records %+v, and replicas with the file from before may run that", recorded)
	}
	late.install("podmanager", bad)
	late.awaitDigest(badDigest)
}

const byOtherText = "another replica has rolled it back"
