package wasmtest_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/sandbox"
	"github.com/thole-dev/thole/internal/wasmbuild"
	"github.com/thole-dev/thole/sdk/sdktest/wasmtest"
)

const (
	benchManager = `{"apiVersion":"example.thole.dev/v1","kind":"PodManager","metadata":{"name":"web","namespace":"default","uid":"u1",` +
		`"generation":1,"creationTimestamp":"2026-01-01T00:00:00Z","finalizers":["podmanager.thole.dev/podmanager"]},` +
		`"spec":{"image":"nginx","env":[{"name":"A","value":"B"}]},"status":{"podName":"web","podCreated":"2026-01-01T00:00:01Z","podPhase":"Pending",` +
		`"observedGeneration":1,"conditions":[{"type":"Ready","status":"True","reason":"Succeeded","message":"the wanted state is reached",` +
		`"lastTransitionTime":"2026-01-01T00:00:01Z","observedGeneration":1}]}}`
	benchPod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"default","uid":"u2","creationTimestamp":"2026-01-01T00:00:01Z",` +
		`"ownerReferences":[{"apiVersion":"example.thole.dev/v1","kind":"PodManager","name":"web","uid":"u1","controller":true,"blockOwnerDeletion":true}],` +
		`"annotations":{"example.thole.dev/immutable":"c236c730aca30f5a"},"labels":{"app.kubernetes.io/managed-by":"podmanager"}},` +
		`"spec":{"containers":[{"name":"main","image":"nginx","env":[{"name":"A","value":"B"}],"resources":{},"terminationMessagePath":"/dev/termination-log",` +
		`"terminationMessagePolicy":"File","imagePullPolicy":"Always"}],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst",` +
		`"serviceAccountName":"default","serviceAccount":"default","securityContext":{},"schedulerName":"default-scheduler","enableServiceLinks":true},` +
		`"status":{"phase":"Pending","qosClass":"BestEffort"}}`
)

// onePod is a host that has the Pod of the PodManager.
type onePod struct{}

func (onePod) Get(context.Context, sandbox.ReadCall) (sandbox.Reply, int64) {
	return sandbox.Bytes([]byte(benchPod)), 0
}

func (onePod) List(context.Context, sandbox.ReadCall) (sandbox.Reply, int64) {
	return sandbox.Reply{}, abi.CodeDenied
}

func (onePod) Import(context.Context, string, sandbox.ReadCall) (sandbox.Reply, int64) {
	return sandbox.Reply{}, abi.CodeDenied
}

func (onePod) Log(int32, []byte) {}

// BenchmarkPodManager measures one reconcile that changes nothing: the request is
// decoded, the Pod read and applied, the result encoded, the instance reset.
func BenchmarkPodManager(b *testing.B) {
	for _, toolchain := range wasmbuild.Toolchains {
		b.Run(string(toolchain), func(b *testing.B) {
			wasm := wasmbuild.Build(b, toolchain, podmanagerDir)
			guest := wasmtest.Load(b, "podmanager", wasm)
			now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			call := sandbox.Call{Now: now, Host: onePod{}, Request: abi.EncodeRequestParts(&abi.Request{
				Controller: "podmanager", Object: []byte(benchManager), Now: now,
			})}
			if out, err := guest.Reconcile(b.Context(), call); err != nil || !strings.Contains(string(out.Output), `"apply"`) {
				b.Fatalf("the run does not apply the Pod: %s, %v", out.Output, err)
			}
			for b.Loop() {
				if _, err := guest.Reconcile(b.Context(), call); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(wasm)), "wasm-bytes")
		})
	}
}
