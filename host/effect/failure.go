package effect

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/internal/explain"
)

// Failure is an effect that failed, with what to do about it.
type Failure struct {
	abi.EffectFailure
	// Conflict says that nobody failed: the object is not the one any more
	// that the effect was made for. The next run sees the new one.
	Conflict bool

	cause error
}

func (f *Failure) Error() string {
	kind := abi.Kind{APIVersion: f.Ref.APIVersion, Kind: f.Ref.Kind}
	name := f.Ref.Name
	if f.Ref.Namespace != "" {
		name = f.Ref.Namespace + "/" + name
	}
	return fmt.Sprintf("%s %s %s: %s", f.Verb, kind, name, f.Message)
}

// Unwrap returns the API server's or the network's error, nil if the host
// refused the effect itself.
func (f *Failure) Unwrap() error { return f.cause }

// Verbs of effects, as in [abi.EffectFailure].
const (
	verbFinalizer = "finalizer"
	verbPatch     = "patch"
	verbApply     = "apply"
	verbDelete    = "delete"
	verbStatus    = "status"
)

// Reasons that the host gives itself; others are the API server's.
const (
	reasonInvalid     = "InvalidIntent"       // the guest's intent makes no sense
	reasonUndeclared  = "NotDeclared"         // the manifest does not name the kind
	reasonScope       = "OutOfScope"          // another namespace, or too far up
	reasonControlled  = "ControlledByAnother" // never touched
	reasonNotAdopted  = "NotAdopted"          // exists, nobody controls it, adopt is not set
	reasonUncontrols  = "NotControlled"       // exists, but is not the primary's to delete
	reasonFields      = "FieldConflict"       // another manager holds wanted fields
	reasonSuperseded  = "Superseded"          // the object is another one now
	reasonUnavailable = "Unavailable"         // no usable answer
)

// refusal is an error that the host has classified where it arose.
type refusal struct {
	class    abi.Class
	reason   string
	message  string
	conflict bool
	cause    error
}

func (r *refusal) Error() string { return r.message }
func (r *refusal) Unwrap() error { return r.cause }

func denied(reason, format string, args ...any) error {
	return &refusal{class: abi.ClassDenied, reason: reason, message: fmt.Sprintf(format, args...)}
}

func invalid(format string, args ...any) error {
	return &refusal{class: abi.ClassABI, reason: reasonInvalid, message: fmt.Sprintf(format, args...)}
}

// superseded is the refusal of an effect whose object is another one now.
func superseded(format string, args ...any) error {
	return &refusal{class: abi.ClassRetry, reason: reasonSuperseded, conflict: true, message: fmt.Sprintf(format, args...)}
}

// failed makes the failure of an effect from its error.
func failed(verb string, ref abi.Ref, err error) *Failure {
	r := classify(err)
	return &Failure{
		EffectFailure: abi.EffectFailure{
			Verb: verb, Ref: cloneRef(ref), Class: r.class, Reason: r.reason,
			Message: truncate(r.message, abi.MaxErrorMessage),
		},
		Conflict: r.conflict, cause: r.cause,
	}
}

// cloneRef returns a ref that the next run can be told of without keeping the
// whole result of this one in memory, which the strings of a ref alias.
func cloneRef(ref abi.Ref) abi.Ref {
	for _, s := range []*string{&ref.APIVersion, &ref.Kind, &ref.Namespace, &ref.Name, &ref.UID} {
		*s = strings.Clone(*s)
	}
	return ref
}

// classify says once what an error means.
func classify(err error) *refusal {
	if known, ok := errors.AsType[*refusal](err); ok {
		return known
	}
	r := &refusal{class: abi.ClassRetry, reason: reasonUnavailable, message: err.Error(), cause: err}
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		if text, ok := explain.Unreachable(err); ok {
			r.message = text
		}
		if errors.Is(err, context.DeadlineExceeded) {
			r.reason = "Timeout"
		}
		return r
	}
	status := answer.Status()
	if status.Reason != metav1.StatusReasonUnknown {
		r.reason = string(status.Reason)
	}
	switch status.Code {
	case http.StatusForbidden:
		r.forbidden(status)
	case http.StatusConflict:
		r.conflicts(status)
	case http.StatusUnprocessableEntity:
		r.conflict = aboutUID(status)
	}
	return r
}

// aboutUID says that a request was refused because it names the uid of an
// object that had the name before.
func aboutUID(status metav1.Status) bool {
	return status.Details != nil && slices.ContainsFunc(status.Details.Causes, func(c metav1.StatusCause) bool {
		return c.Field == "metadata.uid"
	})
}

// forbidden tells a missing right from the refusal of an admission plugin,
// a quota or a webhook, which has the same code.
func (r *refusal) forbidden(status metav1.Status) {
	rule, ok := missingRule(status.Message)
	if !ok {
		return
	}
	r.class = abi.ClassDenied
	r.message = rule + " (" + status.Message + ")"
}

// blockOwner is the text of OwnerReferencesPermissionEnforcement.
const blockOwner = "cannot set blockOwnerDeletion"

// missingRule names the RBAC rule that would have allowed a request.
func missingRule(message string) (string, bool) {
	if strings.Contains(message, blockOwner) {
		return `to own objects the plugin needs the verb "update" on the subresource "finalizers" of its primary's resource`, true
	}
	right, ok := explain.MissingRight(message)
	if !ok {
		return "", false
	}
	return right.Advice(), true
}

// conflicts tells fields that another manager holds, which stay a conflict
// until somebody gives way, from an object that has changed in between.
func (r *refusal) conflicts(status metav1.Status) {
	if status.Details != nil {
		for _, cause := range status.Details.Causes {
			if cause.Type == metav1.CauseTypeFieldManagerConflict {
				r.reason = reasonFields
				r.message = strings.Join(strings.Fields(status.Message), " ") +
					"; leave these fields out of the intent, or make the other manager give them up"
				return
			}
		}
	}
	r.conflict = true
}

// gone says that the object of a request is not there.
func gone(err error) bool { return apierrors.IsNotFound(err) }

// raced says that a request was refused because of something that may have
// changed in between: a failed test of a JSON patch is 422.
func raced(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsInvalid(err) || hasCode(err, http.StatusUnprocessableEntity)
}

func hasCode(err error, code int32) bool {
	var answer apierrors.APIStatus
	return errors.As(err, &answer) && answer.Status().Code == code
}

// truncate shortens s to at most limit bytes of valid UTF-8.
func truncate(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit-3], "") + "..."
}
