package access

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/host/internal/explain"
	"github.com/thole-dev/thole/host/rights"
)

// MissingAccountError is a service account that is not there.
type MissingAccountError struct{ Account rights.Account }

func (e *MissingAccountError) Error() string {
	return fmt.Sprintf("there is no service account %s: create it; thole rbac prints it, with what it needs", e.Account)
}

// Impersonates reports whether the host may act as an account by constrained impersonation
// alone (KEP-5284), which also needs a right to each request. The error is a
// [*MissingAccountError], a [*DeniedError] if it may not act as the account, or that of asking.
func (r *Reviewer) Impersonates(ctx context.Context, account rights.Account) (constrained bool, err error) {
	if err := r.Exists(ctx, account); err != nil {
		return false, err
	}
	return r.impersonates(ctx, account)
}

// Exists returns nil if there is the account. The API server lets one act as an account that it
// does not have, and RBAC gives it rights: [Reviewer.MayUse] denies them, until Exists finds the
// account again. The error is a [*MissingAccountError], or that of asking.
func (r *Reviewer) Exists(ctx context.Context, account rights.Account) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	_, err := r.Accounts(account.Namespace).Get(ctx, account.Name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("look up the service account %s: %w", account, explain.Forbidden(err))
	}
	r.subject(account).gone.Store(err != nil)
	if err != nil {
		return &MissingAccountError{account}
	}
	return nil
}

func (r *Reviewer) impersonates(ctx context.Context, account rights.Account) (constrained bool, err error) {
	actions := []Action{
		{Verb: rights.Impersonate, Resource: "serviceaccounts", Namespace: account.Namespace, Name: account.Name},
		{Verb: rights.ImpersonateConstrained, Group: "authentication.k8s.io", Resource: "serviceaccounts", Namespace: account.Namespace, Name: account.Name},
	}
	for i, action := range actions {
		switch allowed, err := r.HostMay(ctx, action); {
		case err != nil:
			return false, err
		case allowed:
			return i == 1, nil
		}
	}
	return false, &DeniedError{actions[0].right(rights.Account{})}
}
