package effect

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/internal/explain"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/sanitize"
)

// This file classifies errors, and words what users read about them.

// Failure is an effect that failed. Verb and Ref are set at the end, by [failed].
type Failure struct {
	abi.EffectFailure
	// Conflict means that the object has changed since the effect was decided.
	// It does not count as a failed attempt: the next run is given the new one.
	Conflict bool
	// Uncertain means that the write may have taken place all the same: the reply
	// was lost, or the API server failed while it performed the request.
	Uncertain bool
	// Later is set if nothing is wrong but the time: how long the API server, the
	// plugin's own limit of writes, or [Config.Lease] wants the write to be postponed.
	Later time.Duration
	// Outage means that the API server could not be reached or was overloaded:
	// the failure says nothing about the effect.
	Outage bool
	// Internal means that the API server has answered the write with the code 500. Either it is
	// an outage, or the server cannot process what was sent: see [Target.NoOutage].
	Internal bool
	// Full means that a limit of bytes of the plugin is reached. What frees some may be
	// written, and the status that reports it: see [Status.Full].
	Full bool

	cause error
}

// RefusesContent reports whether the API server has refused a request that no later attempt with the same content can
// change.
func RefusesContent(f abi.EffectFailure) bool {
	reason := metav1.StatusReason(f.Reason)
	return reason == metav1.StatusReasonInvalid || reason == metav1.StatusReasonBadRequest || reason == metav1.StatusReasonRequestEntityTooLarge
}

func (f *Failure) Error() string { return outcome.DescribeEffect(&f.EffectFailure) }

// Unwrap returns the error of the API server or of the network, nil if the
// host refused the effect itself.
func (f *Failure) Unwrap() error { return f.cause }

// Reasons of failures that the host has found itself. All others are reasons
// of the API server.
const (
	reasonInvalid        = "InvalidIntent"       // the intent makes no sense
	reasonNotDeclared    = "NotDeclared"         // the manifest does not list the kind
	reasonOutOfScope     = "OutOfScope"          // the object is in another namespace, or cannot be owned
	reasonNotAllowed     = "NotAllowed"          // the policy does not allow it
	reasonControlled     = "ControlledByAnother" // the object has another controller
	reasonNotAdopted     = "NotAdopted"          // the object has no controller, and adopt is not set
	reasonBeingDeleted   = "BeingDeleted"        // the primary or the object to adopt is being deleted
	reasonNotControlled  = "NotControlled"       // the object to delete is not the primary's
	reasonFieldConflict  = "FieldConflict"       // another manager owns fields of the intent
	reasonTooManySharers = "TooManySharers"      // too many primaries apply fields of the object
	reasonSuperseded     = "Superseded"          // the object has been deleted or replaced
	reasonUnavailable    = "Unavailable"         // the API server sent no usable reply
	reasonTimeout        = "Timeout"             // the API server sent no reply in time
	reasonKindNotServed  = "KindNotServed"       // the API server does not serve the kind
	reasonWriteLimit     = "WriteLimit"          // the plugin's limit of writes per second is reached
	reasonStoredLimit    = "StoredLimit"         // the plugin's limit of stored bytes is reached
	reasonChurnLimit     = "ChurnLimit"          // the plugin's limit of bytes written in some minutes is reached
	reasonCacheNotSynced = "CacheNotSynced"      // the host does not see all objects of a kind yet
	reasonNotLeading     = "NotLeading"          // another replica of the host may lead the plugin

	reasonNamespaceTerminating = "NamespaceTerminating" // nothing can be created in the namespace any more
)

func newFailure(class abi.Class, reason, message string) *Failure {
	return &Failure{EffectFailure: abi.EffectFailure{Class: class, Reason: reason, Message: message}}
}

// denied is the error of an intent that the manifest or the policy does not
// allow. The object may have to change first, so the run is tried again.
func denied(reason, format string, args ...any) error {
	return newFailure(abi.ClassDenied, reason, fmt.Sprintf(format, args...))
}

// invalid is the error of an intent that no manifest or policy could allow: the
// plugin violates the contract.
func invalid(format string, args ...any) error {
	return newFailure(abi.ClassABI, reasonInvalid, fmt.Sprintf(format, args...))
}

// superseded is the error of an effect whose object has been deleted or
// replaced since the effect was decided.
func superseded(format string, args ...any) error {
	f := newFailure(abi.ClassRetry, reasonSuperseded, fmt.Sprintf(format, args...))
	f.Conflict = true
	return f
}

// failed returns the failure of an effect. It has strings of its own, because
// those of ref may be part of the result, and the failure is kept until the
// next run.
func failed(verb string, ref abi.Ref, err error) *Failure {
	for _, s := range []*string{&ref.APIVersion, &ref.Kind, &ref.Namespace, &ref.Name, &ref.UID} {
		*s = strings.Clone(*s)
	}
	f := classify(err)
	f.Verb, f.Ref, f.Message = verb, ref, sanitize.TruncateMiddle(f.Message, abi.MaxErrorMessage)
	return f
}

// failed returns the failure of an effect that the plugin has asked for. If the API server is
// known to answer other requests, an internal error of it is due to what was sent.
func (t Target) failed(verb string, ref abi.Ref, err error) *Failure {
	f := failed(verb, ref, err)
	if f.Internal && t.NoOutage {
		f.Outage, f.Reason = false, string(metav1.StatusReasonInvalid)
		f.Message = sanitize.TruncateMiddle("the API server fails to process it, and serves other requests: "+f.Message, abi.MaxErrorMessage)
	}
	return f
}

// classify determines what an error means.
func classify(err error) *Failure {
	if known, ok := errors.AsType[*Failure](err); ok {
		return known
	}
	if unsent, ok := errors.AsType[unsentError](err); ok {
		f := newFailure(abi.ClassRetry, reasonNotLeading, unsent.Error())
		f.cause, f.Later = err, unsentLater
		return f
	}
	f := newFailure(abi.ClassRetry, reasonUnavailable, err.Error())
	f.cause, f.Uncertain, f.Outage, f.Later = err, uncertain(err), explain.Outage(err), postponed(err)
	_, internal := errors.AsType[internalError](err)
	f.Internal = internal && f.Outage
	if text, ok := explain.Unreachable(err); ok {
		f.Message = text
	}
	var status apierrors.APIStatus
	switch {
	case errors.As(err, &status):
		f.Message = explain.ShortenValues(f.Message, status.Status())
		f.classifyStatus(status.Status())
	case isUnknownKind(err):
		f.Reason = reasonKindNotServed
	case errors.Is(err, context.DeadlineExceeded):
		f.Reason = reasonTimeout
	}
	return f
}

// internalError is the reply 500 to a write. The API server sends it when something that it needs
// fails, such as etcd, and for some bodies that it cannot decode, convert or store: base64,
// quantities, times, fractions, and objects that are too large for etcd.
type internalError struct{ error }

func (e internalError) Unwrap() error { return e.error }

// writeError returns the error of a write, as an [internalError] if it is one.
func writeError(err error) error {
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Code == http.StatusInternalServerError {
		return internalError{err}
	}
	return err
}

// unsentLater is when a write is tried again that [Config.Lease] has refused. It is of a
// replica that is about to renew its Lease late; one that has lost it forgets the run.
const unsentLater = time.Second

// uncertain reports whether a write that ended with err may have taken place. An
// error of the client (4xx) states that it has not.
func uncertain(err error) bool {
	var status apierrors.APIStatus
	return !errors.As(err, &status) || status.Status().Code >= http.StatusInternalServerError && !explain.InvalidApply(err)
}

// postponed returns how long the API server asks a client to wait before it repeats
// a request, 0 if it does not.
func postponed(err error) time.Duration {
	seconds, _ := apierrors.SuggestsClientDelay(err)
	if apierrors.IsTooManyRequests(err) {
		seconds = max(seconds, 1)
	}
	return time.Duration(min(seconds, maxLater)) * time.Second
}

// maxLater bounds what the API server can ask for, in seconds.
const maxLater = 15 * 60

func isUnknownKind(err error) bool {
	_, unknown := errors.AsType[*object.UnknownKindError](err)
	return unknown
}

// classifyStatus classifies an error that the API server returned. Unless a right
// is missing it is tried again, because whether a refusal lasts cannot be seen from
// it; see [session.refused] for the exception.
func (f *Failure) classifyStatus(status metav1.Status) {
	if status.Reason != metav1.StatusReasonUnknown {
		f.Reason = string(status.Reason)
	}
	switch status.Code {
	case http.StatusInternalServerError:
		if explain.InvalidApply(f.cause) {
			f.Reason, f.Message = string(metav1.StatusReasonInvalid), oneLine(status.Message)
		}
	case http.StatusForbidden:
		if hasCause(status, isTerminating) {
			f.Reason = reasonNamespaceTerminating
		}
		if advice, ok := missingRight(status.Message); ok {
			f.Class, f.Message = abi.ClassDenied, advice+" ("+status.Message+")"
		}
	case http.StatusConflict:
		f.classifyConflict(status)
	case http.StatusUnprocessableEntity:
		// The request names the uid of an object that had the name before.
		f.Conflict = hasCause(status, func(cause metav1.StatusCause) bool { return cause.Field == "metadata.uid" })
	}
}

// mayExist reports whether the API server has refused to create an object because
// there is one: 409, as a conflict of the resourceVersion or of fields. A server that
// creates no object with a resourceVersion says so.
func mayExist(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code == http.StatusConflict || refusesVersion(err)
}

// refusesVersion reports whether a server that creates no object with a resourceVersion has
// stated that.
func refusesVersion(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && strings.Contains(status.Status().Message, "resourceVersion")
}

// isTerminating reports whether a cause of a 403 is that the namespace is being
// deleted, so that nothing can be created in it.
func isTerminating(cause metav1.StatusCause) bool {
	return cause.Type == corev1.NamespaceTerminatingCause
}

func hasCause(status metav1.Status, match func(metav1.StatusCause) bool) bool {
	return status.Details != nil && slices.ContainsFunc(status.Details.Causes, match)
}

// missingRight reports whether the message of a 403 means that the account
// lacks a right, and returns what to add. Admission plugins, quotas and
// webhooks refuse requests with the same code.
func missingRight(message string) (advice string, ok bool) {
	// The text of the admission plugin OwnerReferencesPermissionEnforcement.
	if strings.Contains(message, "cannot set blockOwnerDeletion") {
		return `the plugin's account lacks a right, which owning objects needs: add the verb "update" on the subresource "finalizers" of the primary's resource to a Role`, true
	}
	if right, ok := explain.MissingRight(message); ok {
		return right.Advice(), true
	}
	return "", false
}

// classifyConflict distinguishes fields that another manager owns, which stay
// a conflict until one of the two gives them up, from an object that was
// changed in between.
func (f *Failure) classifyConflict(status metav1.Status) {
	f.Conflict = !hasCause(status, func(cause metav1.StatusCause) bool { return cause.Type == metav1.CauseTypeFieldManagerConflict })
	if f.Conflict {
		return
	}
	f.Reason = reasonFieldConflict
	f.Message = oneLine(status.Message) +
		"; leave these fields out of the intent, or make the other manager give them up"
}

// oneLine returns a message of several lines as one.
func oneLine(message string) string { return strings.Join(strings.Fields(message), " ") }
