package sandbox

import (
	"testing"

	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// BenchmarkMemoryWithoutReset makes steps of a daemon, compiled by TinyGo, on an instance that is
// not reset. It reports by how much more of its memory is not zero after 1, 100 and 1,000 steps:
// so much of it a host would have to keep that keeps the memory of a daemon.
func BenchmarkMemoryWithoutReset(b *testing.B) {
	g := load(b, newSandbox(b, compiledGuests()), Plugin{
		Name: "pulse", Wasm: wasmbuild.Build(b, wasmbuild.TinyGo, "host/internal/scenario/testdata/pulse"),
	})
	request := []byte(`{"controller":"pulse","events":["read"],"state":{"steps":5,"text":"one"},"now":"2026-11-20T10:00:00Z","seed":"AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAP8=","object":{"apiVersion":"scenario.thole.dev/v1","kind":"Pulse","metadata":{"namespace":"ns","name":"p","uid":"6f1c9e5e-0000-4000-8000-000000000001","generation":1,"resourceVersion":"1234","creationTimestamp":"2026-11-20T10:00:00Z","finalizers":["pulse.thole.dev/pulse"]},"spec":{},"status":{"conditions":[{"type":"Ready","status":"True","reason":"Succeeded","message":"reconciled","lastTransitionTime":"2026-11-20T10:00:00Z","observedGeneration":1}],"observedGeneration":1,"starts":1,"steps":3}}}`)
	for b.Loop() {
		ctx, task, err := g.acquireSlot(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		in, err := g.instanceFor(ctx, nil, "ns")
		if err != nil {
			b.Fatal(err)
		}
		image := in.linear.Image().Bytes()
		for n := 1; n <= 1000; n++ {
			if _, _, err := g.run(ctx, in, tck.DaemonExport, Call{Request: [][]byte{request}}); err != nil {
				b.Fatal(err)
			}
			switch n {
			case 1:
				reportGrowth(b, in, image, "KiB-after-1")
			case 100:
				reportGrowth(b, in, image, "KiB-after-100")
			case 1000:
				reportGrowth(b, in, image, "KiB-after-1000")
			}
		}
		in.close(ctx)
		task.Release()
	}
	b.ReportMetric(0, "ns/op")
}

func reportGrowth(b *testing.B, in *instance, image uint64, unit string) {
	b.Helper()
	b.ReportMetric(float64(in.linear.Image().Bytes()-image)/1024, unit)
}
