package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/devcluster"
	"github.com/thole-dev/thole/host/internal/tholetest"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// failOverSize is how much a test of fail-over does.
type failOverSize struct {
	objects int
	lasts   time.Duration // how long leaders fail in one way, once at least
	change  time.Duration // between two changes of objects
	elect   []string      // flags for the durations of the leader election
}

// soonExpires are flags for Leases that expire sooner than by default, for tests that wait for that. A leader
// that the machine stalls for some seconds still renews them in time.
var soonExpires = []string{
	"--leader-elect-lease-duration=10s", "--leader-elect-renew-deadline=8s", "--leader-elect-retry-period=500ms",
}

// failOverSizeOf returns the size for the environment: with SOAK many objects and the
// default lease, without it leaders fail once and the test is short.
func failOverSizeOf(tb testing.TB) failOverSize {
	tb.Helper()
	if os.Getenv("SOAK") == "" {
		return failOverSize{50, 0, 20 * time.Millisecond, soonExpires}
	}
	return failOverSize{500, soakSizeOf(tb).duration / failOverWays, 20 * time.Millisecond, nil}
}

// failOverWays is in how many ways a leader fails: each takes its share of SOAK.
const failOverWays = 6

// releaseLimit is how soon another replica must write after the leader has given its Lease up. By
// default a Lease expires after 15 s, so that one which was not given up is too late.
const releaseLimit = 10 * time.Second

// workersInFlight is how many writes of the plugin there can be at once: one for each of the
// objects that it reconciles at once.
const workersInFlight = 8

// Two replicas share a plugin whose objects change all the time, and the leader ends or is
// cut off in one of several ways. Each change is reconciled, also those that were made while
// nobody led, and by the audit log the replicas wrote one after the other.
func TestSoakReplicasTakeOverWithoutLosingAKey(t *testing.T) {
	size := failOverSizeOf(t)
	useAuditedCluster(t)
	for _, way := range [failOverWays]struct {
		name    string
		late    int // how many writes may be sent by a replica that led before
		limit   time.Duration
		failure func(f *failOver)
	}{
		{"killed", 0, 20 * time.Second, (*failOver).kill},
		{"stopped and continued", workersInFlight, 20 * time.Second, (*failOver).suspend},
		{"cut off", 0, 20 * time.Second, (*failOver).cutOff},
		{"cut off with delayed requests", workersInFlight, 20 * time.Second, (*failOver).freeze},
		{"ended politely", 0, releaseLimit, (*failOver).end},
		{"restarted one by one", 0, releaseLimit, (*failOver).rollingRestart},
	} {
		t.Run(way.name, func(t *testing.T) {
			size := size
			if way.limit == releaseLimit {
				size.elect = nil
			}
			f := newFailOver(t, size, program)
			var took, firstWrites latencies
			ends := time.Now().Add(size.lasts)
			for n := 0; n == 0 || time.Now().Before(ends); n++ {
				stop := f.beginChanges()
				<-time.After(500 * time.Millisecond)
				f.failed = time.Now()
				way.failure(f)
				<-time.After(500 * time.Millisecond)
				stop()
				f.awaitConverged()
				h := judge(f.audit.next(t))
				t.Logf("%d: %s", n, &h)
				for _, problem := range h.problems(way.late) {
					t.Error(problem)
				}
				if len(h.turns) < 2 {
					t.Errorf("the plugin was led by %v", h.turns)
					continue
				}
				took, firstWrites = append(took, h.turns[1].began.Sub(f.failed)), append(firstWrites, h.longestPause())
			}
			if t.Failed() {
				return
			}
			t.Logf("%s, %d times, %d objects: the next replica wrote after p50 %s, max %s; nobody wrote for p50 %s, max %s", way.name, len(took), size.objects,
				took.quantile(.5), took.quantile(1), firstWrites.quantile(.5), firstWrites.quantile(1))
			if longest := took.quantile(1); longest > way.limit {
				t.Errorf("the next replica wrote after %s, want %s", longest, way.limit)
			}
		})
	}
}

// failOver is a plugin in two replicas of the host, with objects that change.
type failOver struct {
	failOverSize
	t        *testing.T
	ns       string
	audit    *auditLog
	plugins  directory
	cache    string
	program  string // of the replicas that are started next
	replicas []*electedReplica
	started  int
	failed   time.Time // when the leader has failed

	mu        sync.Mutex
	revisions []int // of the objects
}

// electedReplica is a replica of the host, behind a gate and with a name in the audit log.
type electedReplica struct {
	*process
	name string
	gate *gate
}

// auditLogPath is where the audit log of the cluster is, see useAuditedCluster.
var auditLogPath string

// useAuditedCluster gives the test a control plane of its own with an audit log.
func useAuditedCluster(t *testing.T) {
	t.Helper()
	before, beforeObjects, beforeClients := cluster, objects, clients
	t.Cleanup(func() { cluster, objects, clients = before, beforeObjects, beforeClients })
	auditLogPath = filepath.Join(t.TempDir(), "audit.log")
	cluster = devcluster.Start(t, "--audit-log", auditLogPath)
	config := rest.CopyConfig(cluster.Config)
	config.QPS = -1
	objects, clients = dynamic.NewForConfigOrDie(config), kubernetes.NewForConfigOrDie(config)
}

func newFailOver(t *testing.T, size failOverSize, program string) *failOver {
	t.Helper()
	installCRD(t, testdata+"echo/crd.yaml")
	f := &failOver{failOverSize: size, t: t, ns: namespace(t), plugins: newDirectory(t), cache: t.TempDir(), program: program, revisions: make([]int, size.objects)}
	f.plugins.install("echo", wasmbuild.Build(t, wasmbuild.TinyGo, testdata+"echo"))
	f.start()
	f.leader()
	must(t, inParallel(size.objects, func(i int) error {
		return tryCreate(t.Context(), echoes, "Echo", f.ns, echoName(i), map[string]any{"revision": int64(0), "text": "text"})
	}))
	f.start()
	f.awaitConverged()
	f.awaitStandby()
	f.audit = openAuditLog(t, auditLogPath)
	return f
}

// start starts one more replica.
func (f *failOver) start() *electedReplica {
	f.t.Helper()
	f.started++
	r := &electedReplica{name: fmt.Sprintf("replica-%d", f.started), gate: newGate(f.t)}
	r.gate.open()
	user := tholetest.User(cluster.Config)
	user.Impersonate, user.ImpersonateGroups = r.name, []string{"system:masters"}
	r.process = start(f.t, f.plugins, f.ns, soakLimits, withKubeconfig(tholetest.Kubeconfig(f.t, tholetest.Server(cluster.Config, r.gate.address), user)),
		quietlyIn(f.cache), func(h *tholetest.Host) {
			h.Program = f.program
			h.Args = append(append(h.Args, "--leader-elect", "--leader-elect-resource-namespace="+f.ns), f.elect...)
		})
	f.replicas = append(f.replicas, r)
	return r
}

// leader waits until a replica leads, and returns it.
func (f *failOver) leader(but ...*electedReplica) (leader *electedReplica) {
	f.t.Helper()
	await.Until(f.t, "a replica leads", func() bool {
		for _, r := range f.replicas {
			if !slices.Contains(but, r) && r.Plugin("echo").Serving() {
				leader = r
				return true
			}
		}
		return false
	})
	return leader
}

// awaitStandby waits until all replicas but the leader could take over at once.
func (f *failOver) awaitStandby() {
	f.t.Helper()
	leader := f.leader()
	for _, r := range f.replicas {
		if r != leader {
			await.Until(f.t, r.name+" is ready to take over", func() bool { return r.Plugin("echo").State == "standby" })
		}
	}
}

func (f *failOver) forget(r *electedReplica) {
	f.replicas = slices.DeleteFunc(f.replicas, func(other *electedReplica) bool { return other == r })
}

func (f *failOver) kill() {
	leader := f.leader()
	f.failed = time.Now()
	leader.kill()
	f.forget(leader)
	f.leader()
	f.start()
	f.awaitStandby()
}

func (f *failOver) end() {
	leader := f.leader()
	f.failed = time.Now()
	leader.stop()
	f.forget(leader)
	f.leader()
	f.start()
	f.awaitStandby()
}

// rollingRestart replaces each replica by a new one, as a Deployment does.
func (f *failOver) rollingRestart() {
	leader := f.leader()
	for _, r := range slices.Clone(f.replicas) {
		f.start()
		f.awaitStandby()
		if r == leader {
			f.failed = time.Now()
		}
		r.stop()
		f.forget(r)
	}
	f.awaitStandby()
}

func (f *failOver) suspend() {
	leader := f.leader()
	f.failed = time.Now()
	leader.Signal(syscall.SIGSTOP)
	f.continueAfter(leader, func() { leader.Signal(syscall.SIGCONT) })
}

func (f *failOver) cutOff() {
	leader := f.leader()
	f.failed = time.Now()
	leader.gate.close()
	f.continueAfter(leader, leader.gate.open)
}

// freeze cuts the leader off. What it has sent until then, and sends while it believes to lead,
// arrives when another replica leads.
func (f *failOver) freeze() {
	leader := f.leader()
	f.failed = time.Now()
	leader.gate.freeze()
	f.continueAfter(leader, leader.gate.thaw)
}

// continueAfter lets a replica that led go on some time after another one has taken over.
func (f *failOver) continueAfter(former *electedReplica, goOn func()) {
	f.t.Helper()
	f.leader(former)
	<-time.After(time.Second)
	goOn()
	f.awaitStandby()
}

// beginChanges changes objects one after the other until the returned function is called.
func (f *failOver) beginChanges() (stop func()) {
	return repeat(f.t, f.change, func(n int) error {
		i := n * 7 % f.objects
		f.mu.Lock()
		f.revisions[i]++
		revision := f.revisions[i]
		f.mu.Unlock()
		return patch(f.t.Context(), echoes, f.ns, echoName(i), fmt.Sprintf(`{"spec":{"revision":%d}}`, revision))
	})
}

// awaitConverged waits until each object was reconciled as it is.
func (f *failOver) awaitConverged() {
	f.t.Helper()
	var outdated map[string]string
	defer func() {
		if len(outdated) > 0 {
			f.t.Logf("%d objects are outdated: %v", len(outdated), outdated)
		}
	}()
	await.Until(f.t, "each object was reconciled as it is", func() bool {
		outdated = f.outdated()
		return len(outdated) == 0
	})
}

// outdated returns what is wrong with objects, by name.
func (f *failOver) outdated() map[string]string {
	outdated, children := map[string]string{}, map[string]string{}
	for _, child := range list(f.t, configMaps, f.ns) {
		children[child.GetName()] = field(&child, "data", "revision")
	}
	all := byName(list(f.t, echoes, f.ns))
	for i, revision := range f.revisions {
		name, echo := echoName(i), all[echoName(i)]
		shown, _, _ := unstructured.NestedInt64(echo.Object, "status", "revision")
		if child := children[name]; shown != int64(revision) || !ready(echo) || child != strconv.Itoa(revision) {
			outdated[name] = fmt.Sprintf("revision %d, in the status %d, in the ConfigMap %s", revision, shown, child)
		}
	}
	return outdated
}
