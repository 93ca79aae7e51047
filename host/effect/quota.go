package effect

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// This file bounds the bytes that a plugin has stored in the API server, and those of the
// versions of objects that its writes make the server store in [ChurnPeriod]: a version is
// stored as a whole, however small the change is.

// ChurnPeriod is the time in which a plugin may churn [Config.ChurnBytes]; all of them at
// once if it has written nothing for that long.
const ChurnPeriod = 5 * time.Minute

// versionBytes is counted for each version beside its text, which has no managedFields.
const versionBytes = 1024

// Usage is how much of its limits of bytes a plugin has used up.
type Usage struct {
	StoredBytes      int64 `json:"storedBytes"`
	StoredLimitBytes int64 `json:"storedLimitBytes"`
	ChurnedBytes     int64 `json:"churnedBytes"` // less what time has made up for
	ChurnLimitBytes  int64 `json:"churnLimitBytes"`
}

// quota counts the bytes of one plugin.
type quota struct {
	mu      sync.Mutex
	stored  amount    // as they were counted, with the writes since
	counted bool      // all kinds were
	recount time.Time // when they may be counted again
	grew    time.Time // when a write has last added to stored
	churned amount
	at      time.Time // of churned

	growing, churning int64 // by the requests in progress
}

// amount is a number of bytes.
type amount struct {
	bytes int64
	told  bool // that it is near its limit
}

// isNear reports whether four fifths of a limit are used up.
func (a *amount) isNear(limit int64) bool { return a.bytes >= limit-limit/5 }

// patch sends a patch and counts it, unless it would exceed a limit of bytes: then the error
// is a [*Failure] that is Full. Up to a tenth more may be stored by one that adds no bytes, and
// churned by those that report that a limit is reached, which are as small as conditions are.
// What frees bytes is always sent, as are deletes.
func (p *Performer) patch(ctx context.Context, r object.Resource, key object.Key, next patch) (*object.Object, error) {
	if p.DryRun {
		return p.client.patch(ctx, r, key, next)
	}
	growth, version := int64(max(0, next.growth)), int64(len(next.body))
	if next.before != nil {
		version = max(version, int64(len(next.before.Raw)))
	}
	if err := p.begin(next, growth, version); err != nil {
		return nil, err
	}
	reply, err := p.client.patch(ctx, r, key, next)
	p.quota.mu.Lock()
	defer p.quota.mu.Unlock()
	p.quota.growing -= growth
	p.quota.churning -= version
	if err == nil && (next.before == nil || !next.before.IsStateOf(reply)) {
		p.charge(next.before, reply)
	}
	return reply, err
}

// begin counts a patch as in progress, unless it would exceed a limit.
func (p *Performer) begin(next patch, growth, version int64) error {
	q := &p.quota
	q.mu.Lock()
	defer q.mu.Unlock()
	p.refresh(growth)
	stored, churn := p.StoredBytes, p.ChurnBytes
	if growth == 0 {
		stored += stored / 10
	}
	if next.reports {
		churn += churn / 10
	}
	switch {
	case next.frees:
	case p.StoredBytes > 0 && !next.reports && q.stored.bytes+q.growing+growth > stored:
		return p.full(reasonStoredLimit, "stored", fmt.Sprintf("limits.storedMiB of the plugin is reached, %d MiB in objects: "+
			"let it delete some or store less, or raise the limit in its policy and in the file of --config", p.StoredBytes>>20))
	case p.ChurnBytes > 0 && q.churned.bytes+q.churning >= churn:
		return p.full(reasonChurnLimit, "churn", fmt.Sprintf("limits.churnMiB of the plugin is reached, %d MiB of objects written in %s: "+
			"let it write less often, or raise the limit in its policy and in the file of --config", p.ChurnBytes>>20, ChurnPeriod))
	}
	q.growing += growth
	q.churning += version
	return nil
}

func (p *Performer) full(reason, limit, message string) error {
	if p.ObserveLimit != nil {
		p.ObserveLimit(limit)
	}
	f := newFailure(abi.ClassDenied, reason, message)
	f.Full = true
	return f
}

// churnStep is how often time makes up for what was churned: each step is rounded to bytes.
const churnStep = 10 * time.Millisecond

// What is stored is counted again where it is near its limit, since others may have deleted
// some: no more often than minRecount, and for no more than one part in recountShare of the
// time.
const (
	minRecount   = time.Second
	recountShare = 50
	// shownAfter is how long a write may be missing from what is counted: the cache shows
	// it when its event arrives or its run has ended. Until then a count that is lower than
	// the sum of the writes proves nothing.
	shownAfter = 10 * time.Second
)

// refresh brings the numbers of the quota, whose lock is held, up to date.
func (p *Performer) refresh(growth int64) {
	q, now := &p.quota, p.Now()
	if elapsed := now.Sub(q.at); elapsed >= churnStep {
		made := float64(p.ChurnBytes) * min(1, elapsed.Seconds()/ChurnPeriod.Seconds())
		q.churned.bytes, q.at = max(0, q.churned.bytes-int64(made)), now
	}
	grown := amount{bytes: q.stored.bytes + q.growing + growth}
	if p.CountBytes == nil || p.StoredBytes <= 0 || now.Before(q.recount) || q.counted && !grown.isNear(p.StoredBytes) {
		return
	}
	began := time.Now()
	var bytes int
	bytes, q.counted = p.CountBytes(p.managerPrefix())
	if int64(bytes) > q.stored.bytes || now.Sub(q.grew) >= shownAfter {
		q.stored.bytes = int64(bytes)
	}
	q.recount = now.Add(max(minRecount, recountShare*time.Since(began)))
}

// managerPrefix begins the names of all field managers of the plugin.
func (p *Planner) managerPrefix() string { return object.ManagerPrefix + p.Plugin + "/" }

// charge counts a write that changed something. before is nil for a creation, reply for an
// object that is gone. The lock of the quota is held.
func (p *Performer) charge(before, reply *object.Object) {
	q := &p.quota
	p.refresh(0)
	if reply != nil {
		q.churned.bytes += int64(len(reply.Raw)) + versionBytes
	}
	stored := q.stored.bytes
	switch {
	case before == nil:
		q.stored.bytes += int64(reply.BytesBy(p.managerPrefix()))
	case reply == nil || isLastUpdate(reply):
		q.stored.bytes = max(0, q.stored.bytes-int64(before.BytesBy(p.managerPrefix())))
	case before.Raw != nil: // else it is not known what there was
		q.stored.bytes = max(0, q.stored.bytes+int64(reply.BytesBy(p.managerPrefix())-before.BytesBy(p.managerPrefix())))
	}
	if q.stored.bytes > stored {
		q.grew = p.Now()
	}
	p.tell(&q.stored, p.StoredBytes, "limits.storedMiB")
	p.tell(&q.churned, p.ChurnBytes, "limits.churnMiB")
}

// chargeDeleted counts an object that was deleted, or is being deleted.
func (p *Performer) chargeDeleted(before, reply *object.Object) {
	p.quota.mu.Lock()
	defer p.quota.mu.Unlock()
	p.charge(before, reply)
}

// tell logs once that an amount is near its limit.
func (p *Performer) tell(a *amount, limit int64, name string) {
	near := limit > 0 && a.isNear(limit)
	if near && !a.told {
		p.Logger.Warn("the plugin is near a limit, at which its writes are refused: let it write less, or raise the limit in its policy and in the file of --config",
			"limit", name, "usedMiB", a.bytes>>20, "limitMiB", limit>>20)
	}
	a.told = near || a.told && a.bytes > limit/2
}

// Usage returns how much of its limits of bytes the plugin has used up.
func (p *Performer) Usage() Usage {
	q := &p.quota
	q.mu.Lock()
	defer q.mu.Unlock()
	p.refresh(0)
	return Usage{q.stored.bytes, p.StoredBytes, q.churned.bytes, p.ChurnBytes}
}

// forgetStored makes what is stored be counted again.
func (q *quota) forgetStored() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.counted, q.recount = false, time.Time{}
}
