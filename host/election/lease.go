package election

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// Lease is a Lease for whose plugins one replica is the leader.
type Lease struct {
	Name    string
	e       *Election
	elector *leaderelection.LeaderElector

	mu        sync.Mutex
	state     state
	again     bool                  // something has changed while a request was sent
	interrupt context.CancelFunc    // ends the wait for the next attempt
	renewed   time.Time             // when the request was sent by which the Lease was renewed last; zero: it is not led
	leading   chan struct{}         // closed while the replica leads
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

func newLease(e *Election, name string) (*Lease, error) {
	l := &Lease{Name: name, e: e, leading: make(chan struct{})}
	l.expires = time.AfterFunc(time.Hour, l.retry)
	l.expires.Stop()
	var err error
	l.elector, err = leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: e.Namespace, Name: name},
			Client:     client{e.Client.CoordinationV1().Leases(e.Namespace), l},
			LockConfig: resourcelock.ResourceLockConfig{Identity: e.Identity},
		},
		LeaseDuration: e.LeaseDuration, RenewDeadline: e.RenewDeadline, RetryPeriod: e.RetryPeriod,
		ReleaseOnCancel: true, Name: name,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {}, // may come late: see client.done
			OnStoppedLeading: l.lost,
		},
	})
	return l, err
}

// run takes part in the election until ctx is done, and gives the Lease up.
func (l *Lease) run(ctx context.Context) {
	ctx = klog.NewContext(ctx, logr.New(debugOnly{l.e.Logger}))
	for ctx.Err() == nil {
		attempt, cancel := context.WithCancel(ctx)
		l.mu.Lock()
		l.interrupt = cancel
		l.mu.Unlock()
		l.elector.Run(attempt)
		cancel()
	}
	l.expires.Stop()
}

// wake tries again now that the Lease has changed, and when it is due to expire if it does not
// change any more.
func (l *Lease) wake() {
	seen, _ := l.e.seen(l.Name)
	if seen != nil { // else it was deleted, and whoever leads may not know that yet
		l.mu.Lock()
		l.noteHolder(holder(seen))
		l.mu.Unlock()
	}
	l.expires.Reset(l.e.LeaseDuration + expirySlack)
	l.retry()
}

// noteHolder notes who leads by a Lease that has changed. l.mu is held.
func (l *Lease) noteHolder(by string) {
	l.heldUntil = time.Time{}
	if by != "" && by != l.e.Identity {
		l.heldUntil = time.Now().Add(l.e.LeaseDuration)
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

// Leading returns a channel that is closed if the replica leads. It is another one after the
// Lease was lost.
func (l *Lease) Leading() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leading
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
func (l *Lease) Annotate(ctx context.Context, annotations map[string]*string) error {
	if err := l.Check(); err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, l.e.requestTimeout())
	defer cancel()
	reply, err := l.e.Client.CoordinationV1().Leases(l.e.Namespace).Patch(ctx, l.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.written = newer(reply, l.written)
	}
	return err
}

// lost is called when the replica ceases to lead or an attempt was interrupted.
func (l *Lease) lost() {
	l.mu.Lock()
	led := l.state == leading
	l.renewed, l.state = time.Time{}, waiting
	if led {
		l.leading = make(chan struct{})
	}
	l.mu.Unlock()
	if led && l.e.Changed != nil {
		l.e.Changed(l)
	}
}
