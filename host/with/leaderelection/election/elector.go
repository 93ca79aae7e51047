package election

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// elector acquires, renews and releases a Lease, by the protocol of k8s.io/client-go/tools/leaderelection, so that a
// replica of either kind takes part. That package links the types of all API groups.
//
// It says when to write what. Whether a write may be sent, since another replica may hold the Lease, is decided by
// [Lease.begin]. All methods are for the goroutine of the Lease.
type elector struct {
	client client
	lease  *coordinationv1.Lease // as it was read or written last, the base of the next write; nil: none
}

// jitter is the largest part of the retry period that is added to the pause between two attempts to acquire, as in
// client-go.
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
	switch {
	case ctx.Err() != nil:
		return false
	case e.leads() && e.write(ctx, e.term()): // a read first would be of what it has written itself
		return true
	}
	err := e.get(ctx)
	if apierrors.IsNotFound(err) {
		return e.create(ctx, e.term())
	}
	return err == nil && e.write(ctx, e.term())
}

// leads reports whether this replica held the Lease when it was read or written last.
func (e *elector) leads() bool { return holder(e.lease) == e.client.lease.e.Identity }

// term returns the spec by which this replica holds the Lease.
func (e *elector) term() coordinationv1.LeaseSpec {
	config, now := &e.client.lease.e.Config, metav1.NowMicro()
	spec := coordinationv1.LeaseSpec{
		HolderIdentity: new(config.Identity), LeaseDurationSeconds: new(int32(config.LeaseDuration / time.Second)),
		AcquireTime: &now, RenewTime: &now, LeaseTransitions: new(e.transitions()),
	}
	switch {
	case e.leads():
		spec.AcquireTime = e.lease.Spec.AcquireTime
	case e.lease != nil:
		*spec.LeaseTransitions++
	}
	return spec
}

// transitions returns how often the Lease went from one replica to another.
func (e *elector) transitions() int32 {
	if e.lease == nil || e.lease.Spec.LeaseTransitions == nil {
		return 0
	}
	return *e.lease.Spec.LeaseTransitions
}

// get reads the Lease.
func (e *elector) get(ctx context.Context) error {
	lease, err := e.client.Get(ctx, e.client.lease.Name, metav1.GetOptions{})
	if err == nil || apierrors.IsNotFound(err) {
		e.lease = lease
	}
	return err
}

func (e *elector) create(ctx context.Context, spec coordinationv1.LeaseSpec) bool {
	l := e.client.lease
	meta := metav1.ObjectMeta{Namespace: l.e.Namespace, Name: l.Name}
	return e.wrote(e.client.Create(ctx, &coordinationv1.Lease{ObjectMeta: meta, Spec: spec}, metav1.CreateOptions{}))
}

func (e *elector) write(ctx context.Context, spec coordinationv1.LeaseSpec) bool {
	lease := e.lease.DeepCopy()
	lease.Spec = spec
	return e.wrote(e.client.Update(ctx, lease, metav1.UpdateOptions{}))
}

func (e *elector) wrote(lease *coordinationv1.Lease, err error) bool {
	if err == nil {
		e.lease = lease
	}
	return err == nil
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
		LeaseTransitions: new(e.transitions()),
	})
}
