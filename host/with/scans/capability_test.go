package scans

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/scans"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/runner"
	"github.com/thole-dev/thole/host/telemetry"
)

// revision returns one whose controller has scans.
func revision(scans ...contract.Scan) *dispatch.Revision {
	return &dispatch.Revision{Controller: abi.Controller{Name: "c", Sections: []abi.Section{{Name: contract.Name, Value: contract.Encode(scans)}}}}
}

// start returns what the capability does with the controller c of the plugin p.
func start(m *telemetry.Metrics) runner.ControllerPart {
	return Capability().New(runner.Environment{Metrics: m}).Plugin("p").Controller(nil)
}

func TestTheTurnsOfAController(t *testing.T) {
	part := start(telemetry.NewMetrics())
	rev := revision(contract.Scan{Name: "due", Interval: 30_000}, contract.Scan{Name: "often", Interval: 1})
	rev.Config = []byte(`{"a":1}`)
	turns := part.Turns(rev)
	if len(turns) != 2 || turns[0].Key != "scan/due" || turns[0].Interval != 30*time.Second || turns[1].Interval != time.Second || turns[0].Export != "scan" {
		t.Fatalf("turns %+v", turns)
	}
	now, seed := time.Date(2026, 11, 30, 12, 0, 0, 5, time.UTC), [32]byte{1, 31: 2}
	q, err := contract.DecodeRequest(slices.Concat(turns[0].Request(now, seed)...))
	if err != nil || q.Controller != "c" || q.Scan != "due" || string(q.Config) != `{"a":1}` || !q.Now.Equal(now) || q.Seed != seed {
		t.Errorf("request %+v, %v", q, err)
	}
	if none := part.Turns(&dispatch.Revision{}); none != nil {
		t.Errorf("without scans there are %+v", none)
	}
}

func TestWhatAScanHasWritten(t *testing.T) {
	for text, want := range map[string]string{
		"": "[] <nil> <nil>",
		`{"objects":[{"namespace":"ns","name":"w","signal":{"n":1}},{"name":"c"}]}`: `[{ns/w {"n":1}} {c }] <nil> <nil>`,
		`{"objects":[{"name":"c"}],"error":{"reason":"NoSite","message":"none"}}`:   `[{c }] NoSite none <nil>`,
		`{"objects":[{}]}`:          `[] <nil> objects[0].name: is required`,
		`{"objects":[{"every":1}]}`: `[] <nil> objects[0]: unknown field "every"`,
	} {
		found, failure, err := decode([]byte(text))
		said := "<nil>"
		if failure != nil {
			said = failure.Reason + " " + failure.Message
		}
		var objects []string
		for _, o := range found {
			objects = append(objects, fmt.Sprintf("{%s %s}", o.Key, o.Signal))
		}
		if got := fmt.Sprint(objects, " ", said, " ", err); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	key := object.Key{Namespace: "ns", Name: "w"}
	text := []byte(`{"objects":[{"namespace":"ns","name":"w","signal":7}]}`)
	found, _, _ := decode(text)
	clear(text)
	if found[0].Key != key || string(found[0].Signal) != "7" {
		t.Errorf("%+v aliases what the guest has written", found)
	}
}

func TestACallIsForNoObjectOfAControllerWithScans(t *testing.T) {
	c := Capability()
	with, without := revision(contract.Scan{Name: "due", Interval: 30_000}).Controller, abi.Controller{}
	if !c.Uses(&with).ForNoObject || c.Uses(&without).ForNoObject || c.Describe(&with) != "due 30s" || c.Describe(&without) != "" {
		t.Errorf("%q, %q", c.Describe(&with), c.Describe(&without))
	}
	if c.Check(&with, with.Sections[0].Value) != nil || c.Check(&without, []byte(`[{"name":"Due!"}]`)) == nil {
		t.Error("the section is not checked")
	}
}

// scanSeries returns the series of scans, with their values.
func scanSeries(t *testing.T, m *telemetry.Metrics) map[string]float64 {
	t.Helper()
	families, err := m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	series := map[string]float64{}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "thole_scan") {
			continue
		}
		for _, one := range f.GetMetric() {
			labels := ""
			for _, l := range one.GetLabel() {
				if l.GetName() != "plugin" && l.GetName() != "controller" {
					labels += " " + l.GetValue()
				}
			}
			series[f.GetName()+labels] = one.GetCounter().GetValue() + one.GetGauge().GetValue() + float64(one.GetHistogram().GetSampleCount())
		}
	}
	return series
}

func expectSeries(t *testing.T, m *telemetry.Metrics, want map[string]float64) {
	t.Helper()
	if got := scanSeries(t, m); !maps.Equal(got, want) {
		t.Errorf("series %v, want %v", got, want)
	}
}

func TestSeriesOfAScanExistFromItsStartToItsEnd(t *testing.T) {
	m := telemetry.NewMetrics()
	part := start(m)
	rev := revision(contract.Scan{Name: "due", Interval: 30_000})
	due := part.Turns(rev)[0]
	part.Swapped(nil, rev)
	want := map[string]float64{
		"thole_scans_total success due": 0, "thole_scans_total failed due": 0, "thole_scan_duration_seconds due": 0, "thole_scan_objects due": 0,
		"thole_scan_ignored_objects_total due": 0, "thole_scan_interval_seconds due": 30, "thole_scan_running due": 0,
	}
	set := func(values map[string]float64) { maps.Copy(want, values) }
	expectSeries(t, m, want)
	ended := due.Started()
	set(map[string]float64{"thole_scan_running due": 1})
	expectSeries(t, m, want)
	ended()
	due.Ended(events.TurnEnded{Objects: 5, Ignored: 2, Duration: time.Second})
	due.Ended(events.TurnEnded{Failure: events.Failure{Class: abi.ClassRetry}, Duration: time.Second})
	set(map[string]float64{
		"thole_scan_running due": 0, "thole_scans_total success due": 1, "thole_scans_total failed due": 1,
		"thole_scan_objects due": 5, "thole_scan_ignored_objects_total due": 2, "thole_scan_duration_seconds due": 2,
	})
	expectSeries(t, m, want)
	due.Idle()
	set(map[string]float64{"thole_scan_objects due": 0})
	expectSeries(t, m, want)

	next := revision(contract.Scan{Name: "cleanup", Interval: 1000})
	part.Turns(next)
	part.Swapped(rev, next)
	due.Ended(events.TurnEnded{Objects: 1}) // it was in progress
	due.Started()
	for series := range scanSeries(t, m) {
		if strings.HasSuffix(series, " due") {
			t.Errorf("there is still %s", series)
		}
	}
	part.Stop()
	expectSeries(t, m, map[string]float64{})
}

func TestAPluginThatHasStoppedHasNoSeries(t *testing.T) {
	m := telemetry.NewMetrics()
	start(m).Turns(revision(contract.Scan{Name: "due", Interval: 1000}))
	m.CountEvents().Observe(events.PluginStopped{Plugin: "p"})
	expectSeries(t, m, map[string]float64{})
}
