package e2e

import (
	"crypto/rand"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/thole-dev/thole/host/internal/await"
)

// restoreLimit is how long the host may take, once the API server is back.
const restoreLimit = time.Minute

const suspend = "reconcile.thole.dev/suspend"

// After a restore of etcd the API server has an earlier state with older
// resourceVersions. The host must follow it from there, and must not believe that
// anything that it has written since still exists.
func TestRestoreOfEtcdIsFollowedWithoutARestart(t *testing.T) {
	ns := namespace(t)
	p := startPodmanager(t, ns, "")
	for _, name := range []string{"edited", "pending", "removed"} {
		expectServed(t, ns, name)
	}
	// The host will have applied a:2 to the Pod of pending, and have lost it again.
	annotate(t, podManagers, ns, "pending", suspend, "true")
	must(t, patchSpec(t.Context(), podManagers, ns, "pending", "image", "a:2"))
	must(t, cluster.Save("before"))

	raiseVersion(t, ns, version(t, namespaces, "", ns)+100) // more than a start of the control plane makes
	annotate(t, podManagers, ns, "pending", suspend, "false")
	must(t, patchSpec(t.Context(), podManagers, ns, "edited", "image", "a:2"))
	for _, name := range []string{"edited", "pending"} {
		await.Until(t, name+" has the new image", func() bool { return served(t, ns, name, "a:2") })
	}
	remove(t, podManagers, ns, "removed")
	await.Until(t, "the Pod of removed is gone", func() bool { return get(t, pods, ns, "removed") == nil })
	expectServed(t, ns, "added")
	lost := version(t, podManagers, ns, "pending")
	raiseVersion(t, ns, lost+100)
	must(t, cluster.Restore("before"))

	await.Within(t, restoreLimit, "the restore of both kinds is noticed", func() bool {
		return p.Metrics().Sum("thole_cache_restores_total") == 2
	})
	raiseVersion(t, ns, lost-1) // somebody's change will have the version of a status that the host wrote
	annotate(t, podManagers, ns, "pending", suspend, "false")
	must(t, patchSpec(t.Context(), podManagers, ns, "edited", "image", "a:3"))
	createPodManager(t, ns, "added", "a:4")
	await.Within(t, restoreLimit, "every Pod and status is right", func() bool {
		return served(t, ns, "pending", "a:2") && served(t, ns, "edited", "a:3") &&
			served(t, ns, "removed", "a:1") && served(t, ns, "added", "a:4")
	})
	remove(t, pods, ns, "removed")
	await.Within(t, restoreLimit, "a deleted Pod is made again", func() bool { return served(t, ns, "removed", "a:1") })
	p.expectNoErrors()
}

// version returns the resourceVersion of an object.
func version(t *testing.T, resource schema.GroupVersionResource, ns, name string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(get(t, resource, ns, name).GetResourceVersion(), 10, 64)
	must(t, err)
	return n
}

// raiseVersion changes a namespace until the API server has reached a version.
func raiseVersion(t *testing.T, ns string, until uint64) {
	t.Helper()
	for version(t, namespaces, "", ns) < until {
		annotate(t, namespaces, "", ns, "version", rand.Text())
	}
}
