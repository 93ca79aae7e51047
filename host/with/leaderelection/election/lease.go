package election

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Lease is a Lease for whose plugins one replica is the leader.
type Lease struct {
	Name    string
	e       *Election
	elector *elector

	blocks     bool        // another replica claims a plugin of this one by it; of the goroutine of maintain
	correcting atomic.Bool // annotations are being changed by it
	annotating sync.Mutex  // held while annotations are changed

	mu        sync.Mutex
	wanted    bool          // the replica takes part in its election
	changed   chan struct{} // capacity 1: wanted has changed
	claimed   []string      // the plugins that are to be claimed
	claims    string        // the value of ClaimsAnnotation for it
	decided   int           // how often what is claimed was decided
	confirmed int           // the last decision that is known to be in the Lease
	freed     time.Time     // when it was seen that nobody holds it
	state     state
	again     bool                  // something has changed while a request was sent
	interrupt context.CancelFunc    // ends the wait for the next attempt
	renewed   time.Time             // when the request was sent by which the Lease was renewed last; zero: it is not led
	err       error                 // why the last request failed; nil if it did not
	written   *coordinationv1.Lease // by the last write, or read after it failed
	read      string                // who leads by the last read
	heldUntil time.Time             // by what was seen last another replica leads until then
	expires   *time.Timer
}

// state is what the elector does.
type state int

const (
	waiting state = iota // for the next attempt
	sending              // a request
	leading              // until it is lost or given up
)

func newLease(e *Election, name string) *Lease {
	l := &Lease{Name: name, e: e, changed: make(chan struct{}, 1), wanted: true, decided: 1}
	l.expires = time.AfterFunc(time.Hour, l.retry)
	l.expires.Stop()
	l.elector = &elector{client: client{e.Client, l}}
	return l
}

// run takes part in the election until ctx is done, and gives the Lease up.
func (l *Lease) run(ctx context.Context) {
	for ctx.Err() == nil {
		if !l.isWanted() {
			select {
			case <-l.changed:
			case <-ctx.Done():
			}
			continue
		}
		attempt, cancel := context.WithCancel(ctx)
		l.mu.Lock()
		l.interrupt = cancel
		l.mu.Unlock()
		l.elector.run(attempt)
		cancel()
	}
	l.expires.Stop()
}

// wake tries again now that the Lease has changed, and when it is due to expire if it does not
// change any more.
func (l *Lease) wake(seen *coordinationv1.Lease) {
	if seen == nil { // it was deleted, and whoever leads may not know that yet
		l.expires.Reset(l.e.LeaseDuration + expirySlack)
	} else {
		l.mu.Lock()
		l.noteTerm(seen)
		l.mu.Unlock()
	}
	l.retry()
}

// noteTerm notes a Lease whose spec has changed, when that was seen first and when the elector
// reads it, which measures from then. l.mu is held.
func (l *Lease) noteTerm(lease *coordinationv1.Lease) {
	l.expires.Reset(l.durationOf(lease) + expirySlack)
	l.heldUntil = time.Time{}
	switch holder(lease) {
	case "":
		l.freed = time.Now()
	case l.e.Identity:
	default:
		l.heldUntil = time.Now().Add(l.durationOf(lease))
	}
}

// durationOf returns for how long the holder of a Lease may believe that it leads: its own
// configuration may have more than this one.
func (l *Lease) durationOf(lease *coordinationv1.Lease) time.Duration {
	longest := l.e.LeaseDuration
	if lease.Spec.LeaseDurationSeconds != nil {
		stated := time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second
		longest = max(longest, min(stated, maxLeaseDuration))
	}
	return longest
}

// maxLeaseDuration is that of the configuration.
const maxLeaseDuration = time.Hour

func (l *Lease) isWanted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wanted
}

// setWanted sets whether the replica takes part in the election.
func (l *Lease) setWanted(wanted bool) {
	l.mu.Lock()
	was := l.wanted
	l.wanted = wanted
	l.mu.Unlock()
	if was == wanted {
		return
	}
	select {
	case l.changed <- struct{}{}:
	default:
	}
	l.retry()
}

// isLed reports whether the replica leads as far as the elector knows.
func (l *Lease) isLed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state == leading
}

// giveUp gives the Lease up if the replica leads.
func (l *Lease) giveUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == leading {
		l.interrupt()
	}
}

// expirySlack is the resolution of the time in a Lease, and more.
const expirySlack = 10 * time.Millisecond

func (l *Lease) retry() {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch l.state {
	case waiting:
		if l.interrupt != nil {
			l.interrupt()
		}
	case sending:
		l.again = true
	case leading:
	}
}

// Leads reports whether the replica leads and may write: see [Lease.Check].
func (l *Lease) Leads() bool { return l.Check() == nil }

// ErrNotLeading is the error of [Lease.Check].
var ErrNotLeading = errors.New("this replica does not lead the plugin any more")

// Check returns an error that is [ErrNotLeading] unless the Lease was renewed within the renew
// deadline, so that no other replica can lead. Both clocks count: one stands still while a
// machine is suspended, the other one can be set.
func (l *Lease) Check() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.check()
}

// check is Check; l.mu is held.
func (l *Lease) check() error {
	if l.renewed.IsZero() {
		return ErrNotLeading
	}
	now := time.Now()
	if age := max(now.Sub(l.renewed), now.Round(0).Sub(l.renewed.Round(0))); age >= l.e.RenewDeadline {
		return fmt.Errorf("%w: the Lease %s was renewed %s ago", ErrNotLeading, l.Name, age.Round(time.Millisecond))
	}
	return nil
}

// Err returns why the last request for the Lease failed, nil if it did not.
func (l *Lease) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Holder returns who leads, as far as the replica knows; "" if nobody does.
func (l *Lease) Holder() string {
	lease, _ := l.e.seen(l.Name)
	return holder(lease)
}

// Annotations returns those of the Lease, which must not be changed.
func (l *Lease) Annotations() map[string]string {
	seen, _ := l.e.seen(l.Name)
	l.mu.Lock()
	defer l.mu.Unlock()
	if lease := newer(seen, l.written); lease != nil {
		return lease.Annotations
	}
	return nil
}

// Annotate changes annotations of a Lease that the replica leads; null removes one. The
// elector finds the new version of the Lease by the conflict of its next renewal.
func (l *Lease) Annotate(ctx context.Context, annotations map[string]*string) (err error) {
	l.annotating.Lock()
	defer l.annotating.Unlock()
	ctx, cancel := context.WithTimeout(ctx, l.e.requestTimeout())
	defer cancel()
	for range maxConflicts { // with renewals
		if err = l.Check(); err != nil {
			return err
		}
		if err = l.annotate(ctx, annotations); !apierrors.IsConflict(err) {
			return err
		}
		l.failed(err)
		if _, err := (client{l.e.Client, l}).Get(ctx, l.Name, metav1.GetOptions{}); err != nil {
			return err
		}
	}
	return err
}

// maxConflicts is how often annotations are changed again after a conflict.
const maxConflicts = 4

func (l *Lease) annotate(ctx context.Context, annotations map[string]*string) error {
	seen, _ := l.e.seen(l.Name)
	l.mu.Lock()
	base := newer(seen, l.written)
	decided := l.decided
	l.mu.Unlock()
	if base == nil {
		return fmt.Errorf("the Lease %s was deleted", l.Name)
	}
	reply, err := l.e.Client.Patch(ctx, l.Name, types.MergePatchType, annotationPatch(base, annotations), metav1.PatchOptions{})
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.noteReply(reply, write{base: base.ResourceVersion, decided: decided})
	}
	return err
}

// annotationPatch returns a merge patch of this version of a Lease.
func annotationPatch(lease *coordinationv1.Lease, annotations map[string]*string) []byte {
	patch, _ := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": lease.ResourceVersion, "annotations": annotations}}) // cannot fail
	return patch
}

// lost is called when the replica ceases to lead or an attempt was interrupted.
func (l *Lease) lost() {
	l.mu.Lock()
	led := l.state == leading
	l.renewed, l.state = time.Time{}, waiting
	l.decided++ // what is claimed is written again
	l.mu.Unlock()
	for _, p := range l.e.pluginsWith(l) {
		p.close()
	}
	if led && l.e.Changed != nil {
		l.e.Changed(l)
	}
}
