package e2e

import "testing"

// BenchmarkScale measures the host in large clusters, with many plugins, and beside a
// plugin that reads as much as it can. Each part describes its figures and their sizes,
// which environment variables change. The largest comes last: what the API server
// itself uses for it disturbs the others.
func BenchmarkScale(b *testing.B) {
	for _, part := range []struct {
		name    string
		measure func(b *testing.B)
	}{
		{"plugins", benchmarkPlugins},
		{"hostile", benchmarkHostile},
		{"crowd", benchmarkCrowd},
		{"pods", benchmarkPods},
		{"objects", benchmarkEchoes},
	} {
		b.Run(part.name, part.measure)
	}
}
