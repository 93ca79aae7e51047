package election

import (
	"context"
	"fmt"
	"maps"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/thole-dev/thole/host/internal/explain"
	"github.com/thole-dev/thole/host/kube"
)

// client sends the requests for one Lease. What is read comes from the watch, unless a write
// has shown that it is behind, or it does not show a Lease that was there: who stops in the moment
// in which a deleted one is made again gives that up all the same.
type client struct {
	kube.Leases
	lease *Lease
}

// Get implements [kube.Leases].
func (c client) Get(ctx context.Context, name string, options metav1.GetOptions) (*coordinationv1.Lease, error) {
	l := c.lease
	l.mu.Lock()
	written, behind := l.written, l.err != nil
	l.mu.Unlock()
	found, known := l.e.seen(name)
	found = newer(found, written)
	if !known || behind || found == nil && written != nil {
		ctx, cancel := context.WithTimeout(ctx, l.e.requestTimeout())
		defer cancel()
		live, err := c.Leases.Get(ctx, name, options)
		if err != nil && !apierrors.IsNotFound(err) {
			l.failed(err)
			return nil, err
		}
		if found = live; err != nil {
			found = nil
		}
	}
	if l.noteRead(found) {
		l.lost() // another replica has led since, whether or not this one leads next
	}
	if found == nil {
		return nil, apierrors.NewNotFound(coordinationv1.Resource("leases"), name)
	}
	return found.DeepCopy(), nil
}

// noteRead notes what was read of a Lease, nil if there is none, and reports whether the
// replica has led until now and does not any more.
func (l *Lease) noteRead(found *coordinationv1.Lease) (lost bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.read = holder(found)
	if l.read != "" && l.read != l.e.Identity {
		l.err = nil // another replica leads, and there is nothing to write
	}
	if found == nil {
		return false // it may be made again: see Create
	}
	if !sameTerm(l.written, found) {
		l.noteTerm(found)
	}
	l.written = found
	return l.state == leading && l.read != l.e.Identity
}

// holder returns who leads, "" if nobody does.
func holder(lease *coordinationv1.Lease) string {
	if lease == nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// newer returns the newer one of two versions, of which each may be nil. One that was written
// and is not seen was deleted, or is not seen yet: then the next write fails.
func newer(seen, written *coordinationv1.Lease) *coordinationv1.Lease {
	if seen == nil || written == nil || seen.UID != written.UID || !isBefore(seen.ResourceVersion, written.ResourceVersion) {
		return seen
	}
	return written
}

// isBefore reports whether a resourceVersion is older than another one.
func isBefore(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order < 0
}

// Create implements [kube.Leases].
func (c client) Create(ctx context.Context, lease *coordinationv1.Lease, options metav1.CreateOptions) (*coordinationv1.Lease, error) {
	c.lease.mu.Lock()
	if before := c.lease.written; before != nil { // what was told by it still holds
		lease.Annotations = maps.Clone(before.Annotations)
	}
	c.lease.mu.Unlock()
	return c.send(ctx, lease, func(ctx context.Context) (*coordinationv1.Lease, error) {
		return c.Leases.Create(ctx, lease, options)
	})
}

// Update implements [kube.Leases].
func (c client) Update(ctx context.Context, lease *coordinationv1.Lease, options metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	update := func(ctx context.Context) (*coordinationv1.Lease, error) {
		return c.Leases.Update(ctx, lease, options)
	}
	reply, err := c.send(ctx, lease, update)
	for range maxConflicts {
		if !apierrors.IsConflict(err) || holder(lease) == c.lease.e.Identity {
			break
		}
		// It is given up. The renewal that was interrupted for it may have arrived.
		live, failed := c.Get(ctx, lease.Name, metav1.GetOptions{})
		if failed != nil {
			return nil, failed
		}
		lease.ResourceVersion, lease.Annotations = live.ResourceVersion, live.Annotations
		reply, err = c.send(ctx, lease, update)
	}
	return reply, err
}

// send sends a Lease with its annotations. Whether the replica leads is known from the reply:
// the elector reports it later.
func (c client) send(ctx context.Context, lease *coordinationv1.Lease, request func(context.Context) (*coordinationv1.Lease, error)) (*coordinationv1.Lease, error) {
	l := c.lease
	w, err := l.begin(lease)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, l.e.requestTimeout())
	defer cancel()
	reply, err := request(ctx)
	if l.done(reply, err, w) && l.e.Changed != nil {
		l.e.Changed(l)
	}
	if err != nil {
		return nil, err
	}
	return reply.DeepCopy(), nil // the elector changes it for its next write
}

// begin prepares a request. The elector gives up a Lease of which it was the leader when it
// last looked; if another replica has taken it over since, it is left alone.
func (l *Lease) begin(lease *coordinationv1.Lease) (write, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if holder(lease) != l.e.Identity { // it is given up, and nothing is written from now on
		l.renewed = time.Time{}
		if l.read != l.e.Identity {
			return write{}, fmt.Errorf("the Lease %s is that of %q by now", l.Name, l.read)
		}
	} else if l.state == waiting { // it is taken
		if left := time.Until(l.heldUntil); left > 0 {
			return write{}, fmt.Errorf("another replica may lead by the Lease %s for %s", l.Name, left)
		}
		if other, is := l.isFor(lease); is {
			return write{}, fmt.Errorf("the Lease %s was left to %q", l.Name, other)
		}
		delete(lease.Annotations, PreferredHolderAnnotation)
		l.addClaims(lease)
	}
	if l.state == waiting {
		l.state = sending
	}
	return write{sent: time.Now(), base: lease.ResourceVersion, decided: l.decided}, nil
}

// failed notes that a request has failed. A missing right is logged once.
func (l *Lease) failed(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if apierrors.IsForbidden(err) && (l.err == nil || l.err.Error() != err.Error()) {
		l.e.Logger.Warn("this replica cannot lead", "lease", l.Name, "error", explain.Forbidden(err))
	}
	l.err = err
}

// done notes the outcome of a request, and reports whether it began to lead.
func (l *Lease) done(reply *coordinationv1.Lease, err error, w write) (began bool) {
	if err != nil {
		l.failed(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.err = nil
		l.noteReply(reply, w)
		l.noteTerm(reply)
	}
	switch {
	case err == nil && holder(reply) == l.e.Identity:
		began, l.state, l.renewed = l.state != leading, leading, w.sent
	case l.state == sending:
		l.state = waiting
		if l.again && l.interrupt != nil {
			l.interrupt()
		}
	}
	l.again = false
	return began
}
