package election

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// elector acquires, renews and releases a Lease, by the protocol of k8s.io/client-go/tools/leaderelection, so that a
// replica of either kind takes part. That package links the clients of all API groups.
//
// Clocks of replicas are not compared: a Lease is held for its duration since the elector has seen that its spec
// changed. All methods are for the goroutine of the Lease.
type elector struct {
	client client
	lease  *coordinationv1.Lease     // as it was read or written last, the base of the next write
	read   *coordinationv1.LeaseSpec // of the last read; nil: none
	// observed is the spec that was read or written last, and observedAt when it was seen first.
	observed   coordinationv1.LeaseSpec
	observedAt time.Time
}

// jitter is by which part of the retry period at most the pause between two attempts to acquire is longer, as in client-go.
const jitter = 1.2

// run acquires the Lease and renews it until ctx is done or that fails for the renew deadline, and then releases it.
func (e *elector) run(ctx context.Context) {
	l := e.client.lease
	defer l.lost()
	for !e.attempt(ctx) {
		if !pause(ctx, wait.Jitter(l.e.RetryPeriod, jitter)) {
			return
		}
	}
	for e.renew(ctx) && pause(ctx, l.e.RetryPeriod) {
	}
	e.release()
}

// renew attempts to renew the Lease until the renew deadline.
func (e *elector) renew(ctx context.Context) bool {
	l := e.client.lease
	ctx, cancel := context.WithTimeout(ctx, l.e.RenewDeadline)
	defer cancel()
	for !e.attempt(ctx) {
		if !pause(ctx, l.e.RetryPeriod) {
			return false
		}
	}
	return true
}

// pause blocks for a time. It returns false as soon as ctx is done.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return ctx.Err() == nil
	}
}

// attempt acquires or renews the Lease, and reports whether it is held then.
func (e *elector) attempt(ctx context.Context) bool {
	if ctx.Err() != nil {
		return false
	}
	now := time.Now()
	if e.lease != nil && e.leads() && e.isHeld(now) && e.write(ctx, e.term(now)) { // nobody else can have written it
		return true
	}
	err := e.get(ctx)
	if apierrors.IsNotFound(err) {
		return e.create(ctx, e.term(now))
	}
	if err != nil || !e.leads() && e.isHeld(now) {
		return false
	}
	return e.write(ctx, e.term(now))
}

// term returns the spec by which this replica holds the Lease.
func (e *elector) term(now time.Time) coordinationv1.LeaseSpec {
	l := e.client.lease
	spec := coordinationv1.LeaseSpec{
		HolderIdentity:       new(l.e.Identity),
		LeaseDurationSeconds: new(int32(l.e.LeaseDuration / time.Second)),
		AcquireTime:          &metav1.MicroTime{Time: now},
		RenewTime:            &metav1.MicroTime{Time: now},
		LeaseTransitions:     new(transitions(&e.observed)),
	}
	switch {
	case e.lease == nil:
		spec.LeaseTransitions = new(int32(0))
	case e.leads():
		spec.AcquireTime = e.observed.AcquireTime
	default:
		*spec.LeaseTransitions++
	}
	return spec
}

func transitions(spec *coordinationv1.LeaseSpec) int32 {
	if spec.LeaseTransitions == nil {
		return 0
	}
	return *spec.LeaseTransitions
}

// leads reports whether the Lease was held by this replica when it was seen last.
func (e *elector) leads() bool {
	return e.observed.HolderIdentity != nil && *e.observed.HolderIdentity == e.client.lease.e.Identity
}

// isHeld reports whether the term that was seen last goes on.
func (e *elector) isHeld(now time.Time) bool {
	if e.observed.HolderIdentity == nil || *e.observed.HolderIdentity == "" || e.observed.LeaseDurationSeconds == nil {
		return false
	}
	return e.observedAt.Add(time.Duration(*e.observed.LeaseDurationSeconds) * time.Second).After(now)
}

func (e *elector) observe(spec coordinationv1.LeaseSpec) { e.observed, e.observedAt = spec, time.Now() }

// get reads the Lease.
func (e *elector) get(ctx context.Context) error {
	lease, err := e.client.Get(ctx, e.client.lease.Name, metav1.GetOptions{})
	if err != nil {
		if apierrors.IsNotFound(err) {
			e.lease = nil
		}
		return err
	}
	if e.lease = lease; e.read == nil || !apiequality.Semantic.DeepEqual(*e.read, lease.Spec) {
		e.read = lease.Spec.DeepCopy()
		e.observe(*e.read)
	}
	return nil
}

func (e *elector) create(ctx context.Context, spec coordinationv1.LeaseSpec) bool {
	l := e.client.lease
	lease, err := e.client.Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.e.Namespace, Name: l.Name}, Spec: spec,
	}, metav1.CreateOptions{})
	return e.wrote(spec, lease, err)
}

func (e *elector) write(ctx context.Context, spec coordinationv1.LeaseSpec) bool {
	e.lease.Spec = spec
	lease, err := e.client.Update(ctx, e.lease, metav1.UpdateOptions{})
	return e.wrote(spec, lease, err)
}

func (e *elector) wrote(spec coordinationv1.LeaseSpec, lease *coordinationv1.Lease, err error) bool {
	if err != nil {
		return false
	}
	e.lease = lease
	e.observe(spec)
	return true
}

// release gives the Lease up, if this replica holds it.
func (e *elector) release() {
	ctx, cancel := context.WithTimeout(context.Background(), e.client.lease.e.RenewDeadline)
	defer cancel()
	if err := e.get(ctx); err != nil || !e.leads() {
		return
	}
	now := metav1.NowMicro()
	e.write(ctx, coordinationv1.LeaseSpec{
		HolderIdentity: new(""), LeaseDurationSeconds: new(int32(1)), AcquireTime: &now, RenewTime: &now,
		LeaseTransitions: new(transitions(&e.observed)),
	})
}
