package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/tholetest"
	"github.com/thole-dev/thole/host/with/leaderelection/election"
	"github.com/thole-dev/thole/host/with/leaderelection/lastgood"
)

// drained are two replicas, each with a cache directory that ends with it, as an emptyDir does.
type drained struct {
	*reloaded
	both []*process
}

// replace replaces both replicas at the same time, by others on other nodes. Meanwhile the directory is
// changed.
func (d *drained) replace(kill bool, change func()) {
	d.t.Helper()
	for _, p := range d.both {
		if kill {
			p.kill()
		} else {
			p.stop()
		}
	}
	change()
	d.start()
}

func (d *drained) start() {
	d.t.Helper()
	d.both = nil
	for range 2 {
		d.both = append(d.both, start(d.t, d.dir.directory, d.ns, soakLimits, inPod(d.pod), func(h *tholetest.Host) {
			h.CacheDir = d.t.TempDir()
			h.Args = append(append(h.Args, "--leader-elect", "--leader-elect-resource-namespace="+d.ns), soonExpires...)
		}))
	}
}

// settle waits until each replica leads about as many Leases as the other, so that none asks the other for one: a
// replica that has just begun to lead a plugin has not seen how the revision before was, and rolls no other one back.
func (d *drained) settle() {
	d.t.Helper()
	await.Until(d.t, "the Leases are spread", func() bool {
		all, err := clients.CoordinationV1().Leases(d.ns).List(d.t.Context(), metav1.ListOptions{})
		if err != nil {
			return false
		}
		leads := map[string]int{}
		for i := range all.Items {
			l := &all.Items[i]
			if l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "" || l.Annotations[election.PreferredHolderAnnotation] != "" {
				return false
			}
			leads[*l.Spec.HolderIdentity]++
		}
		most := 0
		for _, n := range leads {
			most = max(most, n)
		}
		return most > 0 && most-(len(all.Items)-most) < 2
	})
}

// expect waits until a plugin is in one of the states on both replicas, with an error that has the text.
func (d *drained) expect(what, text string, states ...string) {
	d.t.Helper()
	for i, p := range d.both {
		await.Until(d.t, fmt.Sprintf("%s on replica %d", what, i), func() bool {
			s := p.Plugin(soakName(1))
			return strings.Contains(" "+strings.Join(states, " ")+" ", " "+s.State+" ") && strings.Contains(s.LastError, text)
		})
	}
}

// TestTheLastGoodModuleOutlivesTheReplicas: a revision was rolled back, and all replicas are replaced by
// ones that find nothing but its file. They run the last good module, whatever is wrong with that of the
// directory; but never one that somebody else has put where they look.
func TestTheLastGoodModuleOutlivesTheReplicas(t *testing.T) {
	t.Parallel()
	d := &drained{reloaded: newReloadedDirectory(t)}
	d.start()
	p, good := d.dir.plugins[1], *d.dir.plugins[1]
	d.expectServedBy(t, &good)
	name := "thole-last-good-" + soakName(1)
	await.Until(t, "the module is in a Secret", func() bool { return d.secret(name) != nil })

	d.settle()
	d.dir.replace(p, d.dir.modules.trap)
	const degraded, standby = "degraded", "standby"
	d.expect("the rollback", "roll", degraded, standby)
	d.replace(false, func() {})
	d.expect("the last good module after a drain", "rolled back to revision 1", degraded, standby)
	d.expectServedBy(t, &good)

	// Nothing runs before this one, which does not make it good.
	d.replace(true, func() { d.dir.replace(p, d.dir.modules.trap) })
	d.expect("a new module", "", "running", "quarantined", standby)
	d.replace(false, func() { replaceFile(t, d.dir.file(p), []byte("no module")) })
	d.expect("the last good module beside a broken file", "not WebAssembly", degraded, standby)
	d.expectServedBy(t, &good)

	forged, _ := d.dir.next(p, d.dir.modules.trap)
	d.replace(true, func() { d.tamper(name, forged) })
	d.expect("no module", "does not run either: in the cache directory", "failed")
	d.expect("no module", "what is there has the digest", "failed")
	for _, r := range d.both {
		await.Until(t, "a host is ready that has nothing to run of a plugin", func() bool {
			code, _ := r.Get("/readyz")
			return code == http.StatusOK
		})
	}
	awaitPodEvent(t, d.pod, "Warning", "PluginRefused", fmt.Sprintf("plugin %q", soakName(1)))

	d.dir.replace(p, d.dir.modules.plain)
	d.expectServedBy(t, p)
	d.settle()
	d.dir.replace(p, d.dir.modules.trap)
	d.expect("the rollback to what came after", "roll", degraded, standby)
}

// secret returns a Secret of the namespace of the hosts, nil if there is none.
func (d *drained) secret(name string) *corev1.Secret {
	d.t.Helper()
	s, err := clients.CoreV1().Secrets(d.ns).Get(d.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return s
}

// tamper puts another module into a Secret.
func (d *drained) tamper(name string, module []byte) {
	d.t.Helper()
	body, _ := json.Marshal(map[string]any{"data": map[string]string{"module.wasm.gz": base64.StdEncoding.EncodeToString(lastgood.Pack(module))}})
	if _, err := clients.CoreV1().Secrets(d.ns).Patch(d.t.Context(), name, types.MergePatchType, body, metav1.PatchOptions{}); err != nil {
		d.t.Fatal(err)
	}
}

// TestSoakTheLastGoodModuleOutlivesTheReplicas ends both replicas at some time after a bad module has
// replaced the good one: before it is loaded, during its probation, between the rollback of one
// replica and that of the other, and after both. Whatever the directory holds afterwards, the plugin is
// never without a revision, and is served by the good one once the bad one cannot be loaded.
func TestSoakTheLastGoodModuleOutlivesTheReplicas(t *testing.T) {
	t.Parallel()
	d := &drained{reloaded: newReloadedDirectory(t)}
	random, rounds := rand.New(rand.NewPCG(soakSeed(t), 0)), 2
	if os.Getenv("SOAK") != "" {
		rounds = 20
	}
	d.start()
	p, good := d.dir.plugins[1], *d.dir.plugins[1]
	d.expectServedBy(t, &good)
	name := "thole-last-good-" + soakName(1)
	await.Until(t, "the module is in a Secret", func() bool { return d.secret(name) != nil })

	upTo := func(most time.Duration) { <-time.After(time.Duration(random.Int64N(int64(most)))) }
	broken := func() { replaceFile(t, d.dir.file(p), d.good[:random.IntN(len(d.good))]) }
	for i := range rounds {
		d.dir.replace(p, d.dir.modules.trap)
		upTo(5 * time.Second)
		kill, meanwhile := random.IntN(2) == 0, func() {}
		if random.IntN(2) == 0 {
			meanwhile = broken
		}
		d.replace(kill, meanwhile)
		upTo(3 * time.Second)
		d.expect(fmt.Sprintf("something runs in round %d", i), "", "running", "quarantined", "degraded", "standby")
		broken()
		d.replace(random.IntN(2) == 0, func() {})
		d.expect(fmt.Sprintf("the last good module in round %d", i), "", "degraded", "standby")
		d.expectServedBy(t, &good)
		replaceFile(t, d.dir.file(p), d.good)
		d.expect(fmt.Sprintf("the good module of the directory in round %d", i), "", "running", "standby")
		d.expectServedBy(t, &good)
	}
}
