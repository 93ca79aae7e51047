package main

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/sdktest"
)

const name = "default/lab"

var (
	lab    = labKind.Ref("default", "lab")
	thePod = podKind.Ref("default", "lab")
)

// newWorld returns a world with one LabInstanceRequest of an hour, and what more its spec has.
func newWorld(t *testing.T, spec string) *sdktest.World {
	t.Helper()
	w := sdktest.New(t)
	w.Configure(map[string]string{"retention": "30m"})
	w.Create(`{"apiVersion":"example.thole.dev/v1","kind":"LabInstanceRequest","metadata":{"namespace":"default","name":"lab"},
		"spec":{"image":"lab:1","duration":"1h"` + spec + `}}`)
	return w
}

// runningWorld returns a world in which the container runs.
func runningWorld(t *testing.T) *sdktest.World {
	t.Helper()
	w := newWorld(t, "")
	w.Reconcile(name).ExpectWaiting("Provisioning")
	setPod(w, "Running", "c-1")
	w.Reconcile(name).ExpectReady()
	expectPhase(t, w, Running)
	return w
}

// setPod is the kubelet.
func setPod(w *sdktest.World, phase, containerID string) {
	state := `"terminated":{"exitCode":143,"reason":"Error"}`
	if phase == "Running" {
		state = `"running":{"startedAt":"` + string(sdk.TimeOf(w.Now())) + `"}`
	}
	w.Change(thePod, fmt.Sprintf(`{"status":{"phase":%q,"containerStatuses":[{"name":"lab","containerID":%q,"state":{%s}}]}}`, phase, containerID, state))
}

func statusOf(w *sdktest.World) Status {
	var l struct{ Status Status }
	w.Get(lab, &l)
	return l.Status
}

func expectPhase(t *testing.T, w *sdktest.World, want Phase) {
	t.Helper()
	if got := statusOf(w); got.Phase != want {
		t.Errorf("the phase is %s, want %s: %+v", got.Phase, want, got)
	}
}

// TestReconcileFollowsTheDocument has a row for each branch of the document's controller and scheduler.
func TestReconcileFollowsTheDocument(t *testing.T) {
	const later, past = `,"scheduledStart":"2026-01-01T02:00:00Z"`, `,"scheduledStart":"2025-12-31T23:59:59Z"`
	nothing := func(*sdktest.World) {}
	for _, c := range []struct {
		name   string
		spec   string
		before func(*sdktest.World) // what happens before the run
		phase  Phase                // after the run
		result func(*sdktest.Run)
		pod    bool // there is a Pod after the run, which is not being deleted
	}{
		{
			"a request without a start begins at once", "", nothing, Provisioning,
			func(r *sdktest.Run) { r.ExpectWaiting("Provisioning").ExpectEvents("Provisioning") }, true,
		},
		{
			"pending, and should start now: the container is started", past, nothing, Provisioning,
			func(r *sdktest.Run) { r.ExpectWaiting("Provisioning") }, true,
		},
		{
			"pending, and not time to start yet: requeue after", later, nothing, Pending,
			func(r *sdktest.Run) { r.ExpectReady().ExpectNext(2*time.Hour).ExpectWrites("finalizer", "status") }, false,
		},
		{
			"pending, and its time has come", later,
			func(w *sdktest.World) { w.Reconcile(name); w.Advance(2 * time.Hour) }, Provisioning,
			func(r *sdktest.Run) { r.ExpectWaiting("Provisioning") }, true,
		},
		{
			"pending, and its start was moved", later,
			func(w *sdktest.World) {
				w.Reconcile(name)
				w.Change(lab, `{"spec":{"scheduledStart":"2026-01-01T05:00:00Z"}}`)
				w.Advance(2 * time.Hour)
			}, Pending,
			func(r *sdktest.Run) { r.ExpectReady().ExpectNext(3 * time.Hour) }, false,
		},
		{
			"provisioning, and the container runs: running", "",
			func(w *sdktest.World) { w.Reconcile(name); setPod(w, "Running", "c-1") }, Running,
			func(r *sdktest.Run) { r.ExpectReady().ExpectNext(time.Hour).ExpectEvents("Started") }, true,
		},
		{
			"provisioning, and the container has failed", "",
			func(w *sdktest.World) { w.Reconcile(name); setPod(w, "Failed", "c-1") }, Failed,
			func(r *sdktest.Run) { r.ExpectReady().ExpectNext(30 * time.Minute).ExpectEvents("Failed") }, true,
		},
		{
			"provisioning, and the container is gone: it is created again", "",
			func(w *sdktest.World) { w.Reconcile(name); w.Delete(thePod) }, Provisioning,
			func(r *sdktest.Run) { r.ExpectWaiting("Provisioning") }, true,
		},
		{
			"running, and not expired: requeue after the remaining duration", "",
			func(w *sdktest.World) {
				w.Reconcile(name)
				setPod(w, "Running", "c-1")
				w.Reconcile(name)
				w.Advance(20 * time.Minute)
			}, Running,
			func(r *sdktest.Run) { r.ExpectReady().ExpectNext(40 * time.Minute).ExpectNoWrites() }, true,
		},
		{
			"running, and expired: the container is stopped", "",
			func(w *sdktest.World) {
				w.Reconcile(name)
				setPod(w, "Running", "c-1")
				w.Reconcile(name)
				w.Advance(time.Hour)
			}, Timeout,
			func(r *sdktest.Run) {
				r.ExpectReady().ExpectNext(30*time.Minute).ExpectEvents("Timeout").ExpectWrites("delete v1 Pod default/lab", "status")
			}, false,
		},
		{
			"running, and its duration was extended", "",
			func(w *sdktest.World) {
				w.Reconcile(name)
				setPod(w, "Running", "c-1")
				w.Reconcile(name)
				w.Advance(time.Hour)
				w.Change(lab, `{"spec":{"duration":"90m"}}`)
			}, Running,
			func(r *sdktest.Run) { r.ExpectReady().ExpectNext(30 * time.Minute) }, true,
		},
		{
			"running, and the container was stopped: completed", "",
			func(w *sdktest.World) {
				w.Reconcile(name)
				setPod(w, "Running", "c-1")
				w.Reconcile(name)
				setPod(w, "Failed", "c-1")
			}, Completed,
			func(r *sdktest.Run) { r.ExpectReady().ExpectEvents("Completed") }, true,
		},
		{
			"running, and the container has ended by itself: completed", "",
			func(w *sdktest.World) {
				w.Reconcile(name)
				setPod(w, "Running", "c-1")
				w.Reconcile(name)
				setPod(w, "Succeeded", "c-1")
			}, Completed,
			func(r *sdktest.Run) { r.ExpectReady() }, true,
		},
		{
			"running, and the container was deleted: completed", "",
			func(w *sdktest.World) {
				w.Reconcile(name)
				setPod(w, "Running", "c-1")
				w.Reconcile(name)
				w.Delete(thePod)
			}, Completed,
			func(r *sdktest.Run) { r.ExpectReady() }, false,
		},
		{
			"provisioning, and the container has already ended by itself: completed", "",
			func(w *sdktest.World) { w.Reconcile(name); setPod(w, "Succeeded", "c-1") }, Completed,
			func(r *sdktest.Run) { r.ExpectReady() }, true,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, c.spec)
			c.before(w)
			c.result(w.Reconcile(name))
			expectPhase(t, w, c.phase)
			if got := w.Exists(thePod); got != c.pod {
				t.Errorf("there is a pod: %t", got)
			}
			w.Reconcile(name).ExpectNoWrites()
		})
	}
}

func TestStatusHasTheTimesOfTheContainer(t *testing.T) {
	w := runningWorld(t)
	want := Status{Phase: Running, ContainerID: "c-1", StartedAt: sdk.TimeOf(w.Now()), ExpiresAt: sdk.TimeOf(w.Now().Add(time.Hour))}
	if got := statusOf(w); got != want {
		t.Errorf("the status is %+v, want %+v", got, want)
	}
}

// TestStartedContainerIsFoundWithoutAStatus: the host was killed after the Pod was created, or the status
// was lost.
func TestStartedContainerIsFoundWithoutAStatus(t *testing.T) {
	w := runningWorld(t)
	started := statusOf(w).StartedAt
	w.Advance(10 * time.Minute)
	w.Change(lab, `{"status":null}`)
	w.Reconcile(name).ExpectReady().ExpectNext(50 * time.Minute)
	if got := statusOf(w); got.Phase != Running || got.StartedAt != started || got.ContainerID != "c-1" {
		t.Errorf("the status is %+v", got)
	}
}

func TestEndedInstanceIsDeletedAfterItsRetention(t *testing.T) {
	for name, test := range map[string]struct {
		config    any
		retention time.Duration
	}{
		"configured": {map[string]string{"retention": "45s"}, 45 * time.Second},
		"default":    {map[string]string{}, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			w := runningWorld(t)
			w.Configure(test.config)
			w.Advance(time.Hour)
			w.Reconcile("default/lab").ExpectNext(test.retention)
			w.Advance(test.retention - time.Second)
			w.Reconcile("default/lab").ExpectNext(time.Second).ExpectNoWrites()
			w.Advance(time.Second)
			run := w.Reconcile("default/lab").ExpectWrites("delete example.thole.dev/v1 LabInstanceRequest default/lab")
			if run.Result.Delete[0].UID == "" {
				t.Error("the deletion has no UID and could delete a later request of that name")
			}
			w.Reconcile("default/lab").ExpectWrites("release")
			w.ExpectGone(lab)
		})
	}
}

func TestRetentionBeginsAnewIfItsTimeIsLost(t *testing.T) {
	w := runningWorld(t)
	w.Change(lab, `{"status":{"phase":"Completed","endedAt":null}}`)
	w.Reconcile(name).ExpectReady().ExpectNext(30 * time.Minute)
	w.Advance(10 * time.Minute)
	w.Reconcile(name).ExpectNext(20 * time.Minute)
}

// TestContainerThatIsBackAfterItsTimeIsStopped: the first deletion was lost with a restored cluster.
func TestContainerThatIsBackAfterItsTimeIsStopped(t *testing.T) {
	w := runningWorld(t)
	w.Change(lab, `{"status":{"phase":"Timeout","endedAt":"2026-01-01T00:00:00Z"}}`)
	w.Reconcile(name).ExpectWrites("delete v1 Pod default/lab")
}

func TestContainerThatTimedOutIsStoppedHoweverOftenThatFails(t *testing.T) {
	w := runningWorld(t)
	w.FailWrites(podKind, "InternalError")
	w.Advance(time.Hour)
	w.Reconcile(name).ExpectRetry("InternalError")
	expectPhase(t, w, Running)
	w.FailWrites(podKind, "")
	w.Reconcile(name).ExpectReady().ExpectWrites("delete v1 Pod default/lab", "status")
	expectPhase(t, w, Timeout)
}

// TestTimeoutIsRecordedWhenItsStatusWasNotWritten: the host was killed after the container had been deleted.
func TestTimeoutIsRecordedWhenItsStatusWasNotWritten(t *testing.T) {
	for name, after := range map[string]func(*sdktest.World){
		"the pod is gone": func(*sdktest.World) {},
		"the pod is being deleted": func(w *sdktest.World) {
			w.Change(thePod, `{"metadata":{"finalizers":["example.com/slow"]}}`)
		},
		"the pod is being deleted and has stopped": func(w *sdktest.World) {
			w.Change(thePod, `{"metadata":{"finalizers":["example.com/slow"]}}`)
			setPod(w, "Failed", "c-1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := runningWorld(t)
			w.Advance(time.Hour)
			after(w)
			w.Delete(thePod)
			w.Reconcile("default/lab").ExpectReady()
			expectPhase(t, w, Timeout)
		})
	}
}

func TestContainerThatHasStoppedInTimeIsCompletedHoweverLateThatIsSeen(t *testing.T) {
	w := runningWorld(t)
	setPod(w, "Succeeded", "c-1")
	w.Advance(2 * time.Hour)
	w.Reconcile(name).ExpectReady()
	expectPhase(t, w, Completed)
}

func TestContainerIsStoppedBeforeItsRequestIsDeleted(t *testing.T) {
	w := runningWorld(t)
	w.Change(thePod, `{"metadata":{"finalizers":["example.com/slow"]}}`)
	w.Delete(lab)
	w.Reconcile(name).ExpectWaiting("ContainerStopping").ExpectWrites("delete v1 Pod default/lab", "status")
	w.Reconcile(name).ExpectWaiting("ContainerStopping").ExpectNoWrites()
	w.Change(thePod, `{"metadata":{"finalizers":null}}`)
	w.Reconcile(name).ExpectWrites("release")
	w.ExpectGone(lab)
}

func TestPodOfOthersIsLeftAlone(t *testing.T) {
	w := newWorld(t, "")
	w.Create(Pod{TypeMeta: podKind.Type(), Metadata: sdk.ObjectMeta{Namespace: "default", Name: "lab"}})
	w.Reconcile(name).ExpectStalled("ContainerNotOurs")
	w.Delete(lab)
	w.Reconcile(name).ExpectWrites("release")
	if !w.Exists(thePod) {
		t.Error("the pod of others is deleted")
	}
}

// TestAttemptsAreLimited: _max_retry_attempts of the document.
func TestAttemptsAreLimited(t *testing.T) {
	w := newWorld(t, "")
	w.FailWrites(podKind, "Forbidden")
	for range 4 {
		w.Reconcile(name).ExpectRetry("Forbidden")
	}
	w.Reconcile(name).ExpectCondition("Stalled", sdk.True, "Forbidden").ExpectNext(0)
	w.FailWrites(podKind, "")
	w.Change(lab, `{"spec":{"duration":"2h"}}`)
	w.Reconcile(name).ExpectWaiting("Provisioning")
}

func TestSpecThatCannotBeRunIsStalled(t *testing.T) {
	for spec, reason := range map[string]string{
		`,"image":""`:                 "InvalidImage",
		`,"image":"two words"`:        "InvalidImage",
		`,"duration":"0s"`:            "InvalidDuration",
		`,"duration":"-5m"`:           "InvalidDuration",
		`,"duration":"soon"`:          "InvalidSpec",
		`,"duration":5`:               "InvalidSpec",
		`,"scheduledStart":"evening"`: "InvalidSchedule",
	} {
		t.Run(spec, func(t *testing.T) {
			w := newWorld(t, "")
			w.Change(lab, `{"spec":{`+spec[1:]+`}}`)
			w.Reconcile(name).ExpectStalled(reason)
			w.ExpectGone(thePod)
		})
	}
}

// TestContainerExpiresWhateverBecomesOfTheSpec: an invalid duration does not prolong it.
func TestContainerExpiresWhateverBecomesOfTheSpec(t *testing.T) {
	w := runningWorld(t)
	w.Change(lab, `{"spec":{"duration":"0s","image":""}}`)
	w.Reconcile(name).ExpectReady().ExpectNext(time.Hour)
	w.Advance(time.Hour)
	w.Reconcile(name)
	expectPhase(t, w, Timeout)
	w.ExpectGone(thePod)
}

func TestStartFarInTheFutureIsWaitedFor(t *testing.T) {
	w := newWorld(t, `,"scheduledStart":"9999-12-31T23:59:59Z"`)
	w.Reconcile(name).ExpectReady().ExpectNext(maxRequeue)
}

// TestScansFindWhatIsDue: the loop of the document's scheduler, and its cleanup.
func TestScansFindWhatIsDue(t *testing.T) {
	const now, before, after = "2026-01-01T00:00:00Z", "2025-12-31T23:59:59Z", "2026-01-01T00:00:01Z"
	for _, c := range []struct {
		name, spec, status string
		scan, signal       string // "": neither scan finds it
	}{
		{"pending, should start now", `"scheduledStart":"` + now + `"`, `"phase":"Pending"`, "scheduler", "start"},
		{"pending, should have started", `"scheduledStart":"` + before + `"`, `"phase":"Pending"`, "scheduler", "start"},
		{"pending, not time to start yet", `"scheduledStart":"` + after + `"`, `"phase":"Pending"`, "", ""},
		{"pending, and cannot be run", `"image":""`, `"phase":"Pending"`, "", ""},
		{"new: its creation makes it due", ``, ``, "", ""},
		{"provisioning: its pod makes it due", ``, `"phase":"Provisioning"`, "", ""},
		{"running, expired", ``, `"phase":"Running","expiresAt":"` + now + `"`, "scheduler", "timeout"},
		{"running, not expired", ``, `"phase":"Running","expiresAt":"` + after + `"`, "", ""},
		{"completed, retention over", ``, `"phase":"Completed","endedAt":"2025-12-31T23:30:00Z"`, "cleanup", "cleanup"},
		{"failed, retention over", ``, `"phase":"Failed","endedAt":"2025-12-31T23:29:59Z"`, "cleanup", "cleanup"},
		{"timeout, retention over", ``, `"phase":"Timeout","endedAt":"2025-12-31T00:00:00Z"`, "cleanup", "cleanup"},
		{"timeout, within the retention", ``, `"phase":"Timeout","endedAt":"2025-12-31T23:30:01Z"`, "", ""},
		{"a spec that cannot be read", `"duration":7`, `"phase":"Pending"`, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, "")
			w.Change(lab, `{"spec":{`+c.spec+`},"status":{`+c.status+`}}`)
			w.Create(`{"apiVersion":"example.thole.dev/v1","kind":"LabInstanceRequest","metadata":{"namespace":"other","name":"far"},
				"spec":{"image":"lab:1","duration":"1h","scheduledStart":"2030-01-01T00:00:00Z"},"status":{"phase":"Pending"}}`)
			for _, scan := range []string{"scheduler", "cleanup"} {
				if scan != c.scan {
					w.Scan(scan).ExpectObjects()
					continue
				}
				w.Scan(scan).ExpectObjects(name).ExpectSignals(strconv.Quote(c.signal))
				w.Reconcile(name).ExpectLog("found by a scan")
			}
		})
	}
}

// TestScanFindsWhatARunIsLateFor: the scheduler starts an instance although its run has waited for another
// time.
func TestScanFindsWhatARunIsLateFor(t *testing.T) {
	w := newWorld(t, `,"scheduledStart":"2026-01-01T02:00:00Z"`)
	w.Reconcile(name).ExpectNext(2 * time.Hour)
	w.Scan("scheduler").ExpectObjects()
	w.Advance(2 * time.Hour)
	w.Scan("scheduler").ExpectObjects(name)
	w.Reconcile(name).ExpectWaiting("Provisioning")
	expectPhase(t, w, Provisioning)
	w.Scan("scheduler").ExpectObjects()
}

func TestInstanceThatIsBeingDeletedIsNotFound(t *testing.T) {
	w := runningWorld(t)
	w.Advance(2 * time.Hour)
	w.Delete(lab)
	w.Scan("scheduler").ExpectObjects()
}

func TestScanFailsWithoutReads(t *testing.T) {
	w := newWorld(t, "")
	w.FailReads(labKind, abi.CodeDenied)
	w.Scan("scheduler").ExpectFailure(abi.ClassRetry, "Denied")
	w.Configure(map[string]string{"retention": "soon"})
	w.Scan("cleanup").ExpectFailure(abi.ClassStalled, "InvalidConfig")
}

func event(kind, more string) string {
	return `{"specversion":"1.0","id":"7","source":"test","type":"` + kind + `",` + more + `}`
}

// TestContainerEventReconcilesItsInstance: handle_container_event of the document.
func TestContainerEventReconcilesItsInstance(t *testing.T) {
	w := runningWorld(t)
	for containerID, want := range map[string]int{"c-1": 1, "c-2": 0, "": 0} {
		if got := w.Receive(event("container.stopped", `"data":{"containerId":`+strconv.Quote(containerID)+`}`)); len(got) != want {
			t.Errorf("an event of container %q is for %q", containerID, got)
		}
	}
	// The container is looked at: the event alone proves nothing.
	w.Reconcile(name).ExpectReady().ExpectLog("received an event")
	if got := statusOf(w); got.Phase != Running || got.LastEvent != "container.stopped" {
		t.Errorf("the status is %+v", got)
	}
	setPod(w, "Failed", "c-1")
	w.Receive(event("container.stopped", `"data":{"containerId":"c-1"}`))
	w.Reconcile(name).ExpectReady()
	if got := statusOf(w); got.Phase != Completed || got.Message != "the container has stopped: Error, exit code 143" {
		t.Errorf("the status is %+v", got)
	}
}

// TestLabEventReconcilesTheInstanceThatItNames: handle_lab_instance_created and
// handle_lab_instance_updated of the document.
func TestLabEventReconcilesTheInstanceThatItNames(t *testing.T) {
	w := newWorld(t, "")
	for _, c := range []struct {
		kind, subject string
		want          int
	}{
		{"labinstancerequest.created", "default/lab", 1},
		{"labinstancerequest.updated", "default/lab", 1},
		{"labinstancerequest.updated", "other/lab", 0},
		{"labinstancerequest.status_updated", "default/lab", 0}, // of its own runs
		{"labinstancerequest.reconciled.success", "default/lab", 0},
	} {
		if got := w.Receive(event(c.kind, `"subject":"`+c.subject+`"`)); len(got) != c.want {
			t.Errorf("%s of %s is for %q", c.kind, c.subject, got)
		}
	}
	w.Reconcile(name).ExpectWaiting("Provisioning").ExpectLog("received an event")
}

func TestUnavailableReadChangesNothing(t *testing.T) {
	w := runningWorld(t)
	w.Advance(2 * time.Hour)
	w.FailReads(podKind, abi.CodeUnavailable)
	w.Reconcile(name).ExpectRetry("Unavailable").ExpectEvents()
	expectPhase(t, w, Running)
}
