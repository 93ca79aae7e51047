package dispatch

import (
	"context"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/sandbox"
)

// This file makes the scans of a controller (abi/SPEC.md, "Scan"). A scan has a key in the queue beside
// those of the objects, and takes the place of a run: so that the Lease, the circuit breaker, the workers
// and the shutdown are those of runs, and the queue keeps it from running beside itself.

// ScanConfig is what the scans of a revision of a controller need.
type ScanConfig struct {
	Guest   Scanner
	Metrics map[string]ScanMetrics // by the name of the scan
}

// Scanner scans; [sandbox.Guest] implements it.
type Scanner interface {
	Scan(ctx context.Context, call sandbox.Call) (sandbox.Return, error)
}

// ScanMetrics counts the calls of one scan.
type ScanMetrics interface {
	// Started counts the scan as running until the returned function is called.
	Started() (ended func())
	// Succeeded counts a scan that has made so many objects due. ignored are those beside them that the
	// controller does not follow.
	Succeeded(objects, ignored int, seconds float64)
	Failed(seconds float64)
	// Idle is called when the replica does not lead the plugin any more.
	Idle()
}

// scanPrefix is what the names of the keys of scans begin with. No object has such a name, because none
// has a slash; but an owner reference may have it, which the API server does not check.
const scanPrefix = "scan/"

// scanKey returns the key of a scan in the queue.
func scanKey(name string) object.Key { return object.Key{Name: scanPrefix + name} }

// scanOf returns the name of the scan of a key. isScan is false for the key of an object.
func scanOf(key object.Key) (name string, isScan bool) {
	name, isScan = strings.CutPrefix(key.Name, scanPrefix)
	return name, isScan && key.Namespace == ""
}

const (
	// shortestInterval is that of a scan which asks for less, and scanJitter the share of it that is added
	// at most.
	shortestInterval = time.Second
	scanJitter       = 0.05
	// scanRetry is the time until a scan is made again that could not be made, or not read.
	scanRetry = time.Second
	// scanCrowd is the number of objects from which those that a scan has named wait in the background, so
	// that what somebody has changed does not wait for all of them.
	scanCrowd = 100
)

// BeginScans makes every scan of the running revision due now. It must be called when the replica begins
// to lead the plugin.
func (c *Controller) BeginScans() {
	c.mu.Lock()
	scans := c.scansReplaced(c.revision.Load())
	c.mu.Unlock()
	c.addScans(nil, scans)
}

// scansReplaced makes the scans of a revision the ones that there are, all of them due now.
// Controller.mu is held.
func (c *Controller) scansReplaced(revision *Revision) []abi.Scan {
	c.scans = nil
	c.scanRound++
	if revision.Scans == nil {
		return nil
	}
	c.scans = make(map[string]time.Time, len(revision.Controller.Scans))
	for _, s := range revision.Controller.Scans {
		c.scans[s.Name] = time.Time{}
	}
	return revision.Controller.Scans
}

// addScans adds the keys of scans to the queue, before what runs without a change, in the place of those
// before.
func (c *Controller) addScans(before, scans []abi.Scan) {
	for _, s := range before {
		c.Queue.Forget(scanKey(s.Name))
	}
	for _, s := range scans {
		c.Queue.Add(scanKey(s.Name), abi.ReasonTimer)
	}
}

// idleScans is called when the replica does not lead the plugin any more.
func (c *Controller) idleScans() {
	if config := c.revision.Load().Scans; config != nil {
		for _, metrics := range config.Metrics {
			metrics.Idle()
		}
	}
}

// processScan is [Controller.process] for the key of a scan.
func (c *Controller) processScan(ctx context.Context, item workItem, name string) {
	wait, round, exists := c.untilScan(item.revision, name)
	switch {
	case round == 0:
		c.Queue.PutBack(item.Item)
		return
	case !exists:
		c.Queue.Done(item.Key, outcome.Next{})
		return
	case wait > 0: // who has made the key due is not the queue
		c.Queue.Done(item.Key, nextScan(wait))
		return
	}
	s := c.newScan(item, name, round)
	ended := s.metrics.Started()
	s.call(ctx)
	s.decide(ctx)
	s.reportToBreaker(item.permit, &s.decision) // a scan has no standing: how it has ended counts for no other one
	s.deliver()
	ended()
	s.report()
	c.Queue.Done(item.Key, s.next())
}

// untilScan returns the time until a scan is due, and the present round. That is 0 if the revision was
// replaced, which the next one that takes the key finds.
func (c *Controller) untilScan(revision *Revision, name string) (wait time.Duration, round int, exists bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if revision != c.revision.Load() {
		return 0, 0, false
	}
	due, exists := c.scans[name]
	return time.Until(due), c.scanRound, exists
}

// nextScan is what the key of a scan waits for.
func nextScan(after time.Duration) outcome.Next {
	return outcome.Next{Kind: outcome.After, After: max(after, 1), Reason: abi.ReasonTimer}
}

// scan is a call of a scan in progress.
type scan struct {
	guestCall
	scan     abi.Scan
	metrics  ScanMetrics
	round    int // [Controller.scanRound] when it began
	decision outcome.Decision

	found    *abi.ScanResult // what it has returned; nil if it has failed
	failure  events.Failure
	due      int // how many objects it has made due
	ignored  int // and how many it has named that the controller does not follow
	duration time.Duration
}

func (c *Controller) newScan(item workItem, name string, round int) *scan {
	rev := item.revision
	i := slices.IndexFunc(rev.Controller.Scans, func(s abi.Scan) bool { return s.Name == name })
	s := &scan{scan: rev.Controller.Scans[i], metrics: rev.Scans.Metrics[name], round: round}
	s.guestCall = c.newCall(rev, item.Key, &object.Object{Kind: rev.Controller.For.Kind})
	s.reads = c.Cache.BeginUnrecorded(item.Key, rev.Scopes.Reads)
	return s
}

// outdated reports whether the scans have begun anew since this one began: with another revision, or in
// another term, before which another replica may have scanned.
func (s *scan) outdated() bool {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	return s.round != s.c.scanRound
}

// call calls the guest. Its outcome is in found or failure, or in fault or incomplete.
func (s *scan) call(ctx context.Context) {
	defer s.reads.Close()
	rev := s.revision
	request := abi.EncodeScanRequest(&abi.ScanRequest{Controller: s.c.Name, Scan: s.scan.Name, Now: s.start, Seed: s.seed, Config: rev.Config})
	call := s.sandboxCall([][]byte{request}, "", s.timeout())
	call.BeforeRelease = s.decode
	returned, err := rev.Scans.Guest.Scan(ctx, call)
	s.returned, s.duration = returned, time.Since(s.start)
	if err != nil {
		s.failed(err)
	}
}

// decode decodes what the guest has returned, while that still holds its execution slot.
func (s *scan) decode(returned sandbox.Return) {
	found, err := abi.DecodeScanResult(returned.Output)
	switch {
	case err != nil:
		s.fault = &outcome.Fault{Class: abi.ClassABI, Reason: "InvalidResult", Message: "what the scan has written cannot be decoded: " + err.Error() + "; correct the plugin, or build it with the SDK of the host's version"}
	case returned.Code == abi.CodeOK:
		s.found = found
	default:
		s.failure = events.Failure{Class: outcome.ClassOf(returned.Code), Message: fmt.Sprintf("the scan returned %d without a message", returned.Code)}
		if found.Error != nil {
			s.failure.Reason, s.failure.Message = rawjson.Truncate(found.Error.Reason, abi.MaxConditionReason), found.Error.Message
		}
	}
}

// decide turns what has happened into a decision. A scan that could not be made, or could not read what
// it needs, is no failure; nor is one that another replica may make or have made, or another revision.
func (s *scan) decide(ctx context.Context) {
	s.decision.Uncounted = s.incomplete != nil || s.replaced || ctx.Err() != nil || !s.c.leads() || s.outdated()
	if s.decision.Uncounted {
		s.found = nil
		return
	}
	if s.fault != nil {
		s.failure = events.Failure{Class: s.fault.Class, Reason: s.fault.Reason, Message: s.fault.Message}
	}
	if s.guestFault != nil {
		s.failure.Stack, s.failure.Printed, s.failure.PrintedStack = s.guestFault.Stack, s.printed(), s.guestFault.PrintedStack
	}
	s.decision.Class, s.decision.Reason = s.failure.Class, s.failure.Reason
}

// deliver makes the objects due that the scan has found. Each takes the lock for itself. It stops when the
// scans have begun anew.
func (s *scan) deliver() {
	if s.found == nil {
		return
	}
	add := s.c.Queue.Add
	if len(s.found.Objects) > scanCrowd {
		add = s.c.Queue.AddBackground
	}
	for _, o := range s.found.Objects {
		if s.outdated() {
			return
		}
		var given [][]byte
		if o.Signal != nil {
			given = [][]byte{o.Signal}
		}
		key := object.Key{Namespace: o.Namespace, Name: o.Name}
		if !s.c.keepSignals(key, given) {
			s.ignored++
			continue
		}
		s.due++
		s.c.wokenByOthers(key)
		add(key, abi.ReasonSignal)
	}
}

// report counts the scan and reports it to the observers.
func (s *scan) report() {
	switch {
	case s.decision.Uncounted:
		s.logger().Debug("the scan could not be made, it is made again", "cause", s.cause())
		return
	case s.found != nil:
		s.metrics.Succeeded(s.due, s.ignored, s.duration.Seconds())
	default:
		s.metrics.Failed(s.duration.Seconds())
	}
	s.c.Events.Observe(events.ScanEnded{
		Run: s.identity(), Failure: s.failure, Duration: s.duration, Objects: s.due, Ignored: s.ignored,
		Fuel: s.returned.Usage.Fuel, MemoryBytes: s.returned.Usage.MemoryBytes, Muted: s.mute(s.failure),
	})
}

// cause returns why the scan could not be made, nil if the replica has ceased to lead, or stops, or the
// scans have begun anew.
func (s *scan) cause() any {
	switch {
	case s.incomplete != nil:
		return s.incomplete
	case s.replaced && s.fault != nil:
		return s.fault.Message
	}
	return nil
}

// ScanInterval returns the time from the end of a scan to the next one, without jitter.
func ScanInterval(s abi.Scan) time.Duration {
	return max(time.Duration(s.Interval)*time.Millisecond, shortestInterval)
}

// next sets when the scan is due again, and returns that for the queue. With a new revision, or in a new
// term, it is due already.
func (s *scan) next() outcome.Next {
	wait := ScanInterval(s.scan)
	if s.decision.Uncounted {
		wait = scanRetry
	}
	wait = outcome.AddJitter(wait, scanJitter, mathrand.Float64())
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if s.round == s.c.scanRound {
		s.c.scans[s.scan.Name] = time.Now().Add(wait)
	}
	return nextScan(wait)
}
