package page

import (
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/telemetry"
)

func TestNumbersAreThoseOfTheMetrics(t *testing.T) {
	m := telemetry.NewMetrics()
	c := m.Controller("p/c", 3)
	m.Controller("q/d", 1)
	depth := m.WorkQueues().NewDepthMetric("p/c")
	depth.Inc()
	depth.Inc()
	for _, d := range []outcome.Decision{{Metric: outcome.MetricSuccess}, {Metric: outcome.MetricRequeueAfter, Class: abi.ClassWaiting}, {Metric: outcome.MetricError, Class: abi.ClassPanic}} {
		c.Started()(d, 0.5)
	}
	c.Started()
	all, err := numbersOf(m.Controllers)
	if err != nil {
		t.Fatal(err)
	}
	if got := all["p/c"]; got != (Numbers{Queued: 2, Active: 1, Workers: 3, Runs: 3, Errors: 1, Seconds: 1.5}) {
		t.Errorf("%+v", got)
	}
	if got := all["q/d"]; len(all) != 2 || got != (Numbers{Workers: 1}) {
		t.Errorf("%d controllers: %+v", len(all), got)
	}
	c.Stopped()
	m.QueueStopped("p/c")
	if all, _ = numbersOf(m.Controllers); len(all) != 1 {
		t.Errorf("a controller that has stopped is left: %+v", all)
	}
}
