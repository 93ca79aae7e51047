package runner

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/access"
	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/rights"
)

// This file has the service account that a plugin acts as.

// checkIdentity returns a [catalog.WaitError] if a revision cannot act as it is to. constrained
// is that of [access.Reviewer.Impersonates].
func (r *Runner) checkIdentity(ctx context.Context, rev *Revision) (constrained bool, err error) {
	account := rev.Policy.Account()
	if account == (rights.Account{}) {
		if r.HostIdentity {
			return false, nil
		}
		return false, &catalog.WaitError{Denied: true, Reason: fmt.Sprintf("the policy names no service account to act as: write serviceAccount: NAMESPACE/NAME to %s.yaml, beside the module, "+
			"or let plugins act with the rights of the host by --host-identity", rev.Plugin)}
	}
	r.setWaitsFor(rev.Plugin, "the API server to state whether the host may act as the service account "+account.String())
	constrained, err = r.Access.Impersonates(ctx, account)
	_, missing := errors.AsType[*access.MissingAccountError](err)
	switch {
	case err == nil:
		return constrained, nil
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case access.Denied(err) && !missing:
		err = fmt.Errorf("the host may not act as the service account %s: %w; thole rbac prints all rules", account, err)
	case apierrors.IsForbidden(err):
		err = fmt.Errorf("%w; thole rbac prints all rules", err)
	}
	return false, &catalog.WaitError{Reason: advise(err), Denied: access.Denied(err) || apierrors.IsForbidden(err)}
}

// accountAccess implements [dispatch.Access] for the kinds of a revision.
type accountAccess struct {
	reviewer  *access.Reviewer
	account   rights.Account
	resources map[abi.Kind]object.Resource
	review    *atomic.Pointer[rightsReview] // of the plugin
}

// accessOf returns what the account of a revision may read, nil if it acts as the host.
func (r *Runner) accessOf(rev *Revision, resources map[abi.Kind]object.Resource, p *plugin) dispatch.Access {
	account := rev.Policy.Account()
	if account == (rights.Account{}) {
		return nil
	}
	return accountAccess{r.Access, account, resources, &p.review}
}

// mayGet returns [effect.Config].MayGet for an account, nil for the host. That it is not known
// is no right.
func (r *Runner) mayGet(account rights.Account) func(context.Context, object.Resource, object.Key) bool {
	if account == (rights.Account{}) {
		return nil
	}
	var slowUntil atomic.Int64 // Unix nanoseconds
	return func(ctx context.Context, on object.Resource, key object.Key) bool {
		if allowed, known := r.Access.KnownToUse(account, rights.Get, on, key); known {
			return allowed
		}
		if time.Now().UnixNano() < slowUntil.Load() {
			return false
		}
		bounded, cancel := context.WithTimeout(ctx, mayGetTimeout)
		defer cancel()
		err := r.Access.MayUse(bounded, account, rights.Get, on, key)
		if bounded.Err() != nil && ctx.Err() == nil {
			slowUntil.Store(time.Now().Add(afterSlowGet).UnixNano())
		}
		return err == nil
	}
}

// Bounds of how long a write waits for an answer, which is remembered then.
const (
	mayGetTimeout = 2 * time.Second
	// afterSlowGet is for how long no write waits after one has waited in vain.
	afterSlowGet = 10 * time.Second
)

// May implements [dispatch.Access].
func (a accountAccess) May(ctx context.Context, verb string, kind abi.Kind, key object.Key) error {
	resource, known := a.resources[kind]
	if !known { // no revision that starts has such a kind
		return fmt.Errorf("whether %s may %s %s is not known: the API server did not state how the kind is served", a.account, verb, kind)
	}
	err := a.reviewer.MayUse(ctx, a.account, verb, resource, key)
	if access.Denied(err) {
		a.review.Load().refuse(verb, resource, key)
	}
	return err
}

// Known implements [dispatch.Access].
func (a accountAccess) Known(verb string, kind abi.Kind, key object.Key) (allowed, known bool) {
	resource := a.resources[kind]
	if allowed, known = a.reviewer.KnownToUse(a.account, verb, resource, key); known && !allowed {
		a.review.Load().refuse(verb, resource, key)
	}
	return allowed, known
}
