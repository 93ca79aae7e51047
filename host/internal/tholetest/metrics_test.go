package tholetest

import "testing"

func TestMetricsAreSelectedByNameAndLabels(t *testing.T) {
	const text = Metrics("# HELP runs_total Runs.\nruns_total{plugin=\"a\",result=\"error\"} 1\nruns_total{plugin=\"a\",result=\"success\"} 2\n" +
		"runs_total{plugin=\"b\",result=\"success\"} 4\nruns 8\n")
	for _, c := range []struct {
		name   string
		labels []string
		sum    float64
		count  int
	}{
		{"runs_total", nil, 7, 3},
		{"runs_total", []string{"plugin", "a"}, 3, 2},
		{"runs_total", []string{"plugin", "a", "result", "success"}, 2, 1},
		{"runs_total", []string{"plugin", "c"}, 0, 0},
		{"runs", nil, 8, 1},
	} {
		if sum, count := text.Sum(c.name, c.labels...), text.Count(c.name, c.labels...); sum != c.sum || count != c.count {
			t.Errorf("%s with %v: %d series with the sum %v, want %d and %v", c.name, c.labels, count, sum, c.count, c.sum)
		}
	}
}
