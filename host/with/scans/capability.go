package scans

import (
	"slices"
	"strings"
	"time"

	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/scans"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/rights"
	"github.com/thole-dev/thole/host/runner"
	"github.com/thole-dev/thole/host/with"
)

// eventEnded reports that a scan has ended, and its objects are due.
const eventEnded = "ScanEnded"

// shortestInterval is that of a scan which asks for less.
const shortestInterval = time.Second

// Capability returns the capability.
func Capability() with.Capability {
	return with.Capability{
		Name:     contract.Name,
		Check:    contract.Check,
		Exports:  []with.Export{{Name: contract.Export, Meaning: "finds the objects to run"}},
		Uses:     func(c *abi.Controller) rights.Use { return rights.Use{ForNoObject: len(scansOf(c)) > 0} },
		Title:    "Scans",
		Describe: describe,
		New: func(env runner.Environment) runner.Capability {
			m := newMetrics(env.Metrics)
			return runner.Capability{Plugin: func(plugin string) runner.PluginPart {
				return runner.PluginPart{Controller: func(runner.Handle) runner.ControllerPart {
					return (&controller{plugin: plugin, metrics: m}).part()
				}}
			}}
		},
	}
}

// controller makes the scans of a controller.
type controller struct {
	plugin  string
	metrics metrics
	name    string
	scans   []contract.Scan // of the running revision
}

func (c *controller) part() runner.ControllerPart {
	return runner.ControllerPart{
		Hooks: dispatch.Hooks{Turns: c.turns},
		Swapped: func(_, next *dispatch.Revision) {
			c.keepSeries(scansOf(&next.Controller))
			c.name, c.scans = next.Controller.Name, scansOf(&next.Controller)
		},
		Stop: func() { c.keepSeries(nil) },
	}
}

// keepSeries removes the series of the scans that there are no more. A scan in progress may end later.
func (c *controller) keepSeries(of []contract.Scan) {
	for _, s := range c.scans {
		if !slices.ContainsFunc(of, func(other contract.Scan) bool { return other.Name == s.Name }) {
			c.metrics.remove(c.plugin, c.name, s.Name)
		}
	}
}

// turns returns the scans of a revision.
func (c *controller) turns(rev *dispatch.Revision) (all []dispatch.Turn) {
	for _, s := range scansOf(&rev.Controller) {
		m := c.metrics.of(c.plugin, rev.Controller.Name, s.Name, interval(s))
		all = append(all, dispatch.Turn{
			Key: "scan/" + s.Name, What: "scan", Event: eventEnded, Interval: interval(s),
			Export: contract.Export,
			Request: func(now time.Time, seed [32]byte) [][]byte {
				return [][]byte{contract.EncodeRequest(&contract.Request{Controller: rev.Controller.Name, Scan: s.Name, Now: now, Seed: seed, Config: rev.Config})}
			},
			Decode:  decode,
			Started: m.started,
			Ended: func(e events.TurnEnded) {
				if e.Failure.Class == abi.ClassNone {
					m.succeeded(e.Objects, e.Ignored, e.Duration.Seconds())
				} else {
					m.hasFailed(e.Duration.Seconds())
				}
			},
			Idle: m.idle,
		})
	}
	return all
}

// scansOf returns the scans of a controller.
func scansOf(c *abi.Controller) []contract.Scan {
	section := c.Section(contract.Name)
	if section == nil {
		return nil
	}
	all, _ := contract.Decode(section) // was checked
	return all
}

// interval returns the time from the end of a scan to the next one, without jitter.
func interval(s contract.Scan) time.Duration {
	return max(time.Duration(s.Interval)*time.Millisecond, shortestInterval)
}

// decode decodes what a scan has written.
func decode(output []byte) (found []dispatch.Signalled, failure *abi.Failure, err error) {
	result, err := contract.DecodeResult(output)
	if err != nil {
		return nil, nil, err
	}
	for _, o := range result.Objects {
		found = append(found, dispatch.Signalled{Key: object.Key{Namespace: o.Namespace, Name: o.Name}, Signal: o.Signal})
	}
	return found, result.Error, nil
}

// describe describes scans such as "due 30s".
func describe(c *abi.Controller) string {
	var texts []string
	for _, s := range scansOf(c) {
		texts = append(texts, s.Name+" "+interval(s).String())
	}
	return strings.Join(texts, ", ")
}
