package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/tholetest"
)

var labInstances = schema.GroupVersionResource{Group: "example.thole.dev", Version: "v1", Resource: "labinstancerequests"}

// labRetention is how long an instance stays after its end.
const labRetention = 5 * time.Second

// labDirectory returns a plugin directory with labinstance, whose CRD it installs. more are further lines
// of its policy.
func labDirectory(t *testing.T, more ...string) directory {
	t.Helper()
	installCRD(t, "plugins/labinstance/crd.yaml")
	d := newDirectory(t)
	d.installExample("labinstance")
	policy, err := os.ReadFile(filepath.Join(d.path, "labinstance.yaml"))
	must(t, err)
	text := strings.Replace(string(policy), "retention: 1h", "retention: "+labRetention.String(), 1)
	d.installFile("labinstance.yaml", text+strings.Join(more, ""))
	return d
}

// labs are the LabInstanceRequests of a namespace.
type labs struct {
	t  *testing.T
	ns string
}

// create creates a request. A start in the past is at once.
func (l labs) create(name string, duration time.Duration, start time.Time) {
	l.t.Helper()
	create(l.t, labInstances, "LabInstanceRequest", l.ns, name, map[string]any{
		"image": "lab:1", "duration": duration.String(), "scheduledStart": start.UTC().Format(time.RFC3339),
	})
}

// awaitPhase waits for a phase and returns the request.
func (l labs) awaitPhase(name, phase string) (lab *unstructured.Unstructured) {
	l.t.Helper()
	await.Until(l.t, name+" is "+phase, func() bool {
		lab = get(l.t, labInstances, l.ns, name)
		return field(lab, "status", "phase") == phase
	})
	return lab
}

// awaitGone waits until a request is gone, with its Pod.
func (l labs) awaitGone(name string) {
	l.t.Helper()
	await.Until(l.t, name+" is gone with its pod", func() bool {
		return get(l.t, labInstances, l.ns, name) == nil && get(l.t, pods, l.ns, name) == nil
	})
}

// setContainer is the kubelet: the container of a request runs, or has stopped.
func (l labs) setContainer(name, phase string) {
	l.t.Helper()
	state := `"terminated":{"exitCode":143,"reason":"Error"}`
	if phase == "Running" {
		state = fmt.Sprintf(`"running":{"startedAt":%q}`, time.Now().UTC().Format(time.RFC3339))
	}
	status := fmt.Sprintf(`{"status":{"phase":%q,"containerStatuses":[{"name":"lab","image":"lab:1","imageID":"","ready":false,`+
		`"restartCount":0,"containerID":"test://%s/%s","state":{%s}}]}}`, phase, l.ns, name, state)
	_, err := objects.Resource(pods).Namespace(l.ns).Patch(l.t.Context(), name, types.MergePatchType, []byte(status), metav1.PatchOptions{}, "status")
	must(l.t, err)
}

// run creates a request whose container runs for an hour.
func (l labs) run(name string) *unstructured.Unstructured {
	l.t.Helper()
	l.create(name, time.Hour, time.Now())
	l.awaitPhase(name, "Provisioning")
	l.setContainer(name, "Running")
	return l.awaitPhase(name, "Running")
}

func (l labs) startAt(name string, start time.Time) {
	l.t.Helper()
	must(l.t, patchSpec(l.t.Context(), labInstances, l.ns, name, "scheduledStart", start.UTC().Format(time.RFC3339)))
}

func (l labs) setDuration(name string, d time.Duration) {
	l.t.Helper()
	must(l.t, patchSpec(l.t.Context(), labInstances, l.ns, name, "duration", d.String()))
}

// timeOf returns a time of the status of a request.
func timeOf(t *testing.T, lab *unstructured.Unstructured, name string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, field(lab, "status", name))
	must(t, err)
	return at
}

func TestLabInstance(t *testing.T) {
	t.Parallel()
	d, l := labDirectory(t), labs{t, namespace(t)}
	p := start(t, d, l.ns, allowAll)
	p.awaitRunning("labinstance", 1)

	t.Run("it starts on time", func(t *testing.T) {
		l := labs{t, l.ns}
		l.create("scheduled", time.Hour, time.Now().Add(time.Hour))
		pending := l.awaitPhase("scheduled", "Pending")
		if get(t, pods, l.ns, "scheduled") != nil {
			t.Error("there is a pod before the start")
		}
		if !ready(pending) {
			t.Errorf("it is not Ready: %v", condition(pending, "Ready"))
		}
		due := time.Now().Truncate(time.Second).Add(3 * time.Second)
		l.startAt("scheduled", due)
		l.awaitPhase("scheduled", "Provisioning")
		late := time.Since(due)
		pod := get(t, pods, l.ns, "scheduled")
		if created := pod.GetCreationTimestamp(); created.Time.Before(due) {
			t.Errorf("the pod was created %s before the start", due.Sub(created.Time))
		}
		t.Logf("observed to be started %s after the scheduled time", late.Round(time.Millisecond))
		l.setContainer("scheduled", "Running")
		running := l.awaitPhase("scheduled", "Running")
		if id := field(running, "status", "containerId"); id != "test://"+l.ns+"/scheduled" {
			t.Errorf("the container is %q", id)
		}
		if length := timeOf(t, running, "expiresAt").Sub(timeOf(t, running, "startedAt")); length != time.Hour {
			t.Errorf("it expires after %s", length)
		}
	})

	t.Run("it is stopped when its time is over, and deleted after its retention", func(t *testing.T) {
		l := labs{t, l.ns}
		started := timeOf(t, l.run("short"), "startedAt")
		expires := time.Now().Truncate(time.Second).Add(3 * time.Second)
		l.setDuration("short", expires.Sub(started))
		ended := l.awaitPhase("short", "Timeout")
		if end := timeOf(t, ended, "endedAt"); end.Before(expires) {
			t.Errorf("it was stopped %s too early", expires.Sub(end))
		}
		t.Logf("observed to be stopped %s after its time", time.Since(expires).Round(time.Millisecond))
		await.Until(t, "the pod is gone", func() bool { return get(t, pods, l.ns, "short") == nil })
		l.awaitGone("short")
		if kept := time.Since(timeOf(t, ended, "endedAt")); kept < labRetention {
			t.Errorf("it was deleted after %s", kept)
		}
	})

	t.Run("its container is stopped from outside", func(t *testing.T) {
		l := labs{t, l.ns}
		l.run("stopped")
		l.setContainer("stopped", "Failed")
		if got, want := field(l.awaitPhase("stopped", "Completed"), "status", "message"), "the container has stopped: Error, exit code 143"; got != want {
			t.Errorf("the message is %q, want %q", got, want)
		}
		l.run("removed")
		remove(t, pods, l.ns, "removed")
		l.awaitPhase("removed", "Completed")
		l.awaitGone("stopped")
		l.awaitGone("removed")
	})

	t.Run("it is deleted while its container runs", func(t *testing.T) {
		l := labs{t, l.ns}
		l.run("deleted")
		remove(t, labInstances, l.ns, "deleted")
		l.awaitGone("deleted")
	})

	t.Run("the scheduler scans, and the phases are counted", func(t *testing.T) {
		l := labs{t, l.ns}
		l.run("counted")
		await.Until(t, "the instances that run are counted", func() bool {
			running := 0
			for _, lab := range list(t, labInstances, l.ns) {
				if field(&lab, "status", "phase") == "Running" {
					running++
				}
			}
			return p.Metrics().Sum("thole_objects", "field", "phase", "value", "Running") == float64(running) && running > 0
		})
		for _, scan := range []string{"scheduler", "cleanup"} {
			await.Until(t, scan+" has scanned", func() bool {
				return p.Metrics().Sum("thole_scans_total", "scan", scan, "result", "success") > 0
			})
			if failed := p.Metrics().Sum("thole_scans_total", "scan", scan, "result", "failed"); failed > 0 {
				t.Errorf("%s has failed %g times", scan, failed)
			}
		}
	})

	t.Run("the host has the metrics that the document lists", func(t *testing.T) {
		const controller = "labinstance/labinstance"
		m := p.Metrics()
		total, took := m.Sum("controller_runtime_reconcile_total", "controller", controller), m.Sum("controller_runtime_reconcile_time_seconds_count", "controller", controller)
		if successful := m.Sum("controller_runtime_reconcile_total", "controller", controller, "result", "success"); successful == 0 || total <= successful || took == 0 {
			t.Errorf("%g reconciliations, %g successful, %g with a duration", total, successful, took)
		}
		if m.Count("controller_runtime_reconcile_errors_total", "controller", controller) != 1 || m.Count("workqueue_depth", "name", controller) != 1 {
			t.Error("metrics of failed and pending reconciliations are missing")
		}
		await.Until(t, "the cached resources are counted", func() bool {
			return p.Metrics().Sum("thole_cache_objects", "kind", "example.thole.dev/v1 LabInstanceRequest") == float64(len(list(t, labInstances, l.ns)))
		})
		for _, kind := range []string{"example.thole.dev/v1 LabInstanceRequest", "v1 Pod"} { // it is for the one, and owns the other
			if n := m.Sum("thole_cache_handlers", "kind", kind); n != 1 {
				t.Errorf("%g controllers handle changes of %s", n, kind)
			}
		}
		for scan, interval := range map[string]float64{"scheduler": 30, "cleanup": 300} {
			if got := m.Sum("thole_scan_interval_seconds", "scan", scan); got != interval {
				t.Errorf("the interval of %s is %g", scan, got)
			}
			if m.Count("thole_scan_running", "scan", scan) != 1 || m.Count("thole_scan_objects", "scan", scan) != 1 {
				t.Errorf("metrics of %s are missing", scan)
			}
		}
	})

	t.Run("what cannot be run is refused", func(t *testing.T) {
		for _, spec := range []map[string]any{
			{"image": "lab:1"},
			{"image": "", "duration": "1h"},
			{"image": "lab:1", "duration": "0s"},
			{"image": "lab:1", "duration": "-1h"},
			{"image": "lab:1", "duration": "99999999999999h"},
			{"image": "lab:1", "duration": "1d"},
			{"image": "lab:1", "duration": "1h", "scheduledStart": "evening"},
		} {
			if err := tryCreate(t.Context(), labInstances, "LabInstanceRequest", l.ns, "refused", spec); err == nil {
				t.Errorf("%v is accepted", spec)
				remove(t, labInstances, l.ns, "refused")
			}
		}
	})
	p.stop()
	p.expectNoErrors()
}

// TestLabInstanceGoesOnAfterACrashInEachPhase kills the host in each phase, while another replica waits. That goes on,
// and the end is the same as without.
func TestLabInstanceGoesOnAfterACrashInEachPhase(t *testing.T) {
	t.Parallel()
	d, l := labDirectory(t), labs{t, namespace(t)}
	begin := func() *process {
		return start(t, d, l.ns, fmt.Sprintf(allowAll+"leaderElection: {resourceNamespace: %s, shards: 1}\n", l.ns), func(h *tholetest.Host) {
			h.Args = append(append(h.Args, "--leader-elect"), soonExpires...)
		})
	}
	leader := begin()
	leader.awaitRunning("labinstance", 1)
	// crash kills the leader, and does what the other replica finds when it leads.
	crash := func(next func()) {
		t.Helper()
		standby := begin()
		await.Until(t, "the other replica is ready", func() bool { return standby.Plugin("labinstance").Name != "" })
		leader.kill()
		next()
		leader = standby
	}
	l.create("lab", time.Hour, time.Now().Add(time.Hour))
	l.awaitPhase("lab", "Pending")
	crash(func() { l.startAt("lab", time.Now()) })
	l.awaitPhase("lab", "Provisioning")
	crash(func() { l.setContainer("lab", "Running") })
	l.awaitPhase("lab", "Running")
	crash(func() { l.setDuration("lab", time.Second) })
	l.awaitPhase("lab", "Timeout")
	if pod := get(t, pods, l.ns, "lab"); pod != nil && pod.GetDeletionTimestamp() == nil {
		t.Error("its container was not stopped")
	}
	crash(func() {})
	l.awaitGone("lab")
}
