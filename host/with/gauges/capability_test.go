package gauges

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/fieldpath"
	contract "github.com/thole-dev/thole/abi/gauges"
	"github.com/thole-dev/thole/host/cache/objects"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/runner"
	"github.com/thole-dev/thole/host/telemetry"
)

// labs is a controller whose primaries are counted, which takes a time.
type labs struct {
	runner.Handle
	leads   bool
	byField map[string]int
	takes   time.Duration
	counted int
}

func (l *labs) MayWrite() bool { return l.leads }

func (l *labs) CountBy(field fieldpath.Path) objects.Counts {
	l.counted++
	time.Sleep(l.takes) // fake time
	return objects.Counts{ByValue: map[string]int{field.String(): l.byField[field.String()]}}
}

// revision returns one whose gauges are by these fields, each by an index named after it.
func revision(fields ...string) *dispatch.Revision {
	kind := abi.Kind{APIVersion: "example.com/v1", Kind: "Lab"}
	c := abi.Controller{Name: "c", For: kind.All()}
	var all []contract.Gauge
	for _, field := range fields {
		name := strings.ReplaceAll(field, ".", "-")
		c.Indexes = append(c.Indexes, abi.Index{Name: name, Kind: kind, Field: field})
		all = append(all, contract.Gauge{Index: name})
	}
	if all != nil {
		c.Sections = []abi.Section{{Name: contract.Name, Value: contract.Encode(all)}}
	}
	return &dispatch.Revision{Controller: c}
}

// start returns the controller c of a plugin, and what its host collects.
func start(l *labs) (part runner.ControllerPart, series func() []string) {
	m := telemetry.NewMetrics()
	part = Capability().New(runner.Environment{Metrics: m}).Plugin("p").Controller(l)
	return part, func() (all []string) {
		families, err := m.Registry.Gather()
		if err != nil {
			return []string{err.Error()}
		}
		for _, f := range families {
			if f.GetName() != "thole_objects" {
				continue
			}
			for _, one := range f.GetMetric() {
				var labels []string
				for _, l := range one.GetLabel() {
					labels = append(labels, l.GetName()+"="+l.GetValue())
				}
				all = append(all, fmt.Sprint(strings.Join(labels, " "), " ", one.GetGauge().GetValue()))
			}
		}
		return all
	}
}

func TestPrimariesAreCountedWhileTheReplicaLeads(t *testing.T) {
	l := &labs{byField: map[string]int{"status.phase": 2, "spec.zone": 3}}
	part, series := start(l)
	expect := func(when string, want ...string) {
		t.Helper()
		if got := series(); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	l.leads = true
	expect("before the start")
	part.Swapped(nil, revision("status.phase"))
	phase := []string{"controller=c field=status-phase plugin=p value= 0", "controller=c field=status-phase plugin=p value=status.phase 2"}
	expect("a gauge", phase...)
	l.leads = false
	expect("another replica leads")
	l.leads = true
	expect("it leads again", phase...)
	part.Swapped(revision("status.phase"), revision("spec.zone", "status.phase"))
	expect("another revision", slices.Concat([]string{"controller=c field=spec-zone plugin=p value= 0", "controller=c field=spec-zone plugin=p value=spec.zone 3"}, phase)...)
	part.Swapped(revision("spec.zone", "status.phase"), revision())
	expect("without gauges")
	part.Swapped(revision(), revision("status.phase"))
	part.Stop()
	before := l.counted
	expect("the controller has ended")
	if l.counted != before {
		t.Error("a controller that has ended is counted")
	}
}

func TestCountingTakesASmallPartOfTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &labs{leads: true, takes: 100 * time.Millisecond, byField: map[string]int{"status.phase": 1}}
		part, series := start(l)
		part.Swapped(nil, revision("status.phase"))
		for range 3 {
			if got := series(); len(got) != 2 {
				t.Fatalf("%q", got)
			}
		}
		if l.counted != 1 {
			t.Errorf("counted %d times", l.counted)
		}
		time.Sleep(pause * l.takes) // fake time
		series()
		if l.counted != 2 {
			t.Errorf("counted %d times after a pause", l.counted)
		}
	})
}

func TestTheRowOfAController(t *testing.T) {
	c := Capability()
	with, without := revision("status.phase", "spec.zone").Controller, revision().Controller
	if got := c.Describe(&with); got != "status-phase of status.phase, spec-zone of spec.zone" {
		t.Error(got)
	}
	if got := c.Describe(&without); got != "" {
		t.Error(got)
	}
}
