package wasmtest_test

import (
	"testing"
	"time"

	"github.com/thole-dev/thole/internal/wasmbuild"
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/sdktest"
	"github.com/thole-dev/thole/sdk/sdktest/wasmtest"
)

const labinstanceDir = "plugins/labinstance"

// expectLab expects values of the status of the LabInstanceRequest default/lab.
func expectLab(t *testing.T, w *sdktest.World, phase, containerID, lastEvent string) {
	t.Helper()
	var got struct {
		Status struct{ Phase, ContainerID, LastEvent string }
	}
	w.Get(sdk.Kind{APIVersion: "example.thole.dev/v1", Kind: "LabInstanceRequest"}.Ref("default", "lab"), &got)
	if s := got.Status; s.Phase != phase || s.ContainerID != containerID || s.LastEvent != lastEvent {
		t.Errorf("the status is %+v, want %s, %q and %q", s, phase, containerID, lastEvent)
	}
}

func TestManifestOfLabInstanceHasItsCapabilities(t *testing.T) {
	m := wasmtest.Load(t, "labinstance", build(t, labinstanceDir)).Manifest()
	c := &m.Controllers[0]
	if c.Section("cloudEvents") == nil || c.Section("receives") == nil || c.Section("scans") == nil || string(c.Section("gauges")) != `[{"index":"phase"}]` || c.Retry.Attempts != 5 || c.Timeout != 10_000 {
		t.Errorf("the controller is %+v", c)
	}
}

// TestCompiledLabInstance goes through the life of an instance, in which an event in each of the forms of
// its data comes.
func TestCompiledLabInstance(t *testing.T) {
	compiled(t, labinstanceDir, func(t *testing.T, _ wasmbuild.Toolchain, wasm []byte) {
		w := wasmtest.New(t, "labinstance", wasm)
		w.Configure(map[string]string{"retention": "30m"})
		w.Create(`{"apiVersion":"example.thole.dev/v1","kind":"LabInstanceRequest","metadata":{"namespace":"default","name":"lab"},
			"spec":{"image":"lab:1","duration":"1h","scheduledStart":"2026-01-01T02:00:00Z"}}`)
		pod := sdk.Kind{APIVersion: "v1", Kind: "Pod"}.Ref("default", "lab")
		reconcile := func() *sdktest.Run { t.Helper(); return w.Reconcile("default/lab") }
		receive := func(event string) {
			t.Helper()
			if got := w.Receive(`{"specversion":"1.0","id":"1","source":"test",` + event + `}`); len(got) != 1 {
				t.Errorf("%s is for %q", event, got)
			}
		}

		receive(`"type":"labinstancerequest.created","subject":"default/lab","datacontenttype":"image/png","data_base64":"AP8="`)
		reconcile().ExpectReady().ExpectNext(2 * time.Hour)
		expectLab(t, w, "Pending", "", "labinstancerequest.created")
		w.Scan("scheduler").ExpectObjects()
		w.Advance(2 * time.Hour)
		w.Scan("scheduler").ExpectObjects("default/lab").ExpectSignals(`"start"`)
		reconcile().ExpectWaiting("Provisioning").ExpectWrites("apply v1 Pod default/lab", "status")
		w.Change(pod, `{"status":{"phase":"Running","containerStatuses":[{"name":"lab","containerID":"c-1","state":{"running":{"startedAt":"2026-01-01T02:00:05Z"}}}]}}`)
		reconcile().ExpectReady().ExpectNext(time.Hour + 5*time.Second)
		expectLab(t, w, "Running", "c-1", "labinstancerequest.created")

		receive(`"type":"container.started","data":{"containerId":"c-1","more":[1,null]}`)
		reconcile().ExpectReady().ExpectLog("received an event")
		reconcile().ExpectNoWrites()
		w.Change(pod, `{"status":{"phase":"Failed","containerStatuses":[{"name":"lab","containerID":"c-1","state":{"terminated":{"exitCode":137,"reason":"OOMKilled"}}}]}}`)
		receive(`"type":"container.stopped","data":{"containerId":"c-1"}`)
		reconcile().ExpectReady().ExpectNext(30 * time.Minute).ExpectEvents("Completed")
		expectLab(t, w, "Completed", "c-1", "container.stopped")

		w.Scan("cleanup").ExpectObjects()
		w.Advance(30 * time.Minute)
		w.Scan("cleanup").ExpectObjects("default/lab").ExpectSignals(`"cleanup"`)
		reconcile().ExpectWrites("delete example.thole.dev/v1 LabInstanceRequest default/lab")
		reconcile().ExpectWaiting("ContainerStopping").ExpectWrites("delete v1 Pod default/lab", "status")
		reconcile().ExpectWrites("release")
	})
}
