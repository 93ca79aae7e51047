package webhooks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	strictjson "sigs.k8s.io/json"

	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/webhooks"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/sandbox"
	"github.com/thole-dev/thole/host/sanitize"
)

// review is one AdmissionReview that is being answered.
type review struct {
	*request
	asked *admissionv1.AdmissionRequest
	// object and old are as the API server sent them, and as objects without managedFields; nil if
	// the operation has none.
	object, old *object.Object

	sent   contract.ReviewRequest // what the guest was sent last
	result *contract.ReviewResult
	patch  []byte // nil: the object stays as it is
	err    error  // why there is no result
}

// admit answers an AdmissionReview.
func (s *Server) admit(ctx context.Context, q *request) answer {
	v := &review{request: q}
	if err := v.decode(); err != nil {
		return refused(http.StatusBadRequest, "%v", err)
	}
	c := s.controllerOf(ctx, q)
	if c == nil { // whatever it would review
		return s.notReviewed(v, errNotRunning)
	}
	if err := v.check(c.Revision()); err != nil {
		return refused(shownStatus, "%v", err)
	}
	if !v.isReviewedBy(c) {
		return v.passed()
	}
	returned, err := s.call(ctx, q, dispatch.ExportCall{
		Object: object.Key{Namespace: v.asked.Namespace, Name: v.asked.Name},
		Begin:  v.begin,
		Decode: v.take,
	})
	if err = cmp.Or(err, v.err); err == nil && v.result == nil {
		v.take(returned)
		err = v.err
	}
	switch c := s.Controller(q.export, q.plugin, q.controller); {
	case err == nil:
		return v.answer()
	case c != nil && !v.isReviewedBy(c): // it was replaced meanwhile
		return v.passed()
	}
	return s.notReviewed(v, err)
}

// operations are those that a controller may review.
var operations = []admissionv1.Operation{admissionv1.Create, admissionv1.Update, admissionv1.Delete}

// decode decodes and checks the body of the request.
func (v *review) decode() error {
	var body admissionv1.AdmissionReview
	if err := decodeReview(v.body, &body); err != nil {
		return err
	}
	a := body.Request
	switch {
	case body.APIVersion != admissionv1.SchemeGroupVersion.String() || body.Kind != "AdmissionReview":
		return fmt.Errorf("it is a %s of %s, not an AdmissionReview of %s", quoted(body.Kind), quoted(body.APIVersion), admissionv1.SchemeGroupVersion)
	case a == nil || a.UID == "":
		return errors.New("the AdmissionReview has no request, or that has no uid")
	case !slices.Contains(operations, a.Operation):
		return fmt.Errorf("request.operation is %s, must be one of %q", quoted(string(a.Operation)), operations)
	}
	v.asked = a
	return cmp.Or(v.decodeObject("object", a.Object.Raw, a.Operation != admissionv1.Delete, &v.object),
		v.decodeObject("oldObject", a.OldObject.Raw, a.Operation != admissionv1.Create, &v.old))
}

// decodeReview decodes a review. Fields that are not known are those of later versions.
func decodeReview(body []byte, into any) error {
	if elements(body) > maxElements {
		return fmt.Errorf("it has more than %d values beside those of its objects", maxElements)
	}
	duplicates, err := strictjson.UnmarshalStrict(body, into, strictjson.DisallowDuplicateFields)
	if err == nil {
		err = errors.Join(duplicates...)
	}
	if err != nil {
		return errors.New("it is not a review in JSON: " + sanitize.Line(sanitize.Truncate(err.Error(), maxShown)))
	}
	return nil
}

// decodeObject parses an object of the request, which must be there if it is wanted.
func (v *review) decodeObject(field string, raw []byte, wanted bool, into **object.Object) (err error) {
	if !wanted {
		return nil
	}
	if raw == nil {
		return fmt.Errorf("request.%s is required with operation %s", field, quoted(string(v.asked.Operation)))
	}
	if *into, err = object.Parse(raw, abi.Kind{}); err != nil {
		return fmt.Errorf("request.%s: %w", field, err)
	}
	return nil
}

// check returns an error if the request is about something that the controller never reviews.
func (v *review) check(rev *dispatch.Revision) error {
	m, a := &rev.Controller, v.asked
	kind := abi.Kind{APIVersion: metav1.GroupVersion{Group: a.Kind.Group, Version: a.Kind.Version}.String(), Kind: a.Kind.Kind}
	switch {
	case kind != m.For.Kind:
		return fmt.Errorf("it reviews %s, not %s", m.For.Kind, quoted(kind.String()))
	case a.SubResource != "":
		return fmt.Errorf("it reviews no subresource, and not %s", quoted(a.SubResource))
	}
	for _, o := range []*object.Object{v.object, v.old} {
		if o != nil && o.Kind != kind {
			return fmt.Errorf("the request is about %s, and has an object of %s", kind, quoted(o.Kind.String()))
		}
	}
	return nil
}

// isReviewedBy reports whether the running revision reviews the operation of the request, in its namespace.
// The one before may have: then the webhook is to be changed.
func (v *review) isReviewedBy(c Controller) bool {
	rev := c.Revision()
	of := c.Offers(rev)
	offered := of.Validate
	if v.export == contract.ExportMutate {
		offered = of.Mutate
	}
	return slices.Contains(offered, contract.Operation(v.asked.Operation)) && rev.Scopes.For.HasNamespace(v.asked.Namespace)
}

// passed returns the response to a review of what the plugin does not review.
func (v *review) passed() answer {
	return admissionAnswer(resultAllowed, &admissionv1.AdmissionResponse{UID: v.asked.UID, Allowed: true})
}

// begin returns the text of the request to the guest of a revision.
func (v *review) begin(rev *dispatch.Revision, now time.Time, seed [32]byte) ([][]byte, error) {
	u := v.asked.UserInfo
	v.sent = contract.ReviewRequest{
		Controller: rev.Controller.Name,
		Operation:  contract.Operation(v.asked.Operation),
		DryRun:     v.asked.DryRun != nil && *v.asked.DryRun,
		User:       contract.User{Name: u.Username, UID: u.UID, Groups: u.Groups},
		Now:        now, Seed: seed, Config: rev.Config,
	}
	if v.object != nil {
		v.sent.Object = v.object.Given()
	}
	if v.old != nil {
		v.sent.Old = v.old.Given()
	}
	return contract.EncodeReviewRequestParts(&v.sent), nil
}

// take decodes what the guest has returned. It is called while the call holds its execution slot:
// the time that a large result takes is the plugin's own.
func (v *review) take(returned sandbox.Return) {
	decode := contract.DecodeValidateResult
	if v.export == contract.ExportMutate {
		decode = contract.DecodeMutateResult
	}
	v.result, v.err = decode(returned.Output)
	if v.err == nil {
		v.err = codeError(returned.Code, v.result.Error)
	} else {
		v.err = invalid(v.err)
	}
	if v.err != nil || v.result.Object == nil {
		return
	}
	if v.err = v.sent.CheckResult(v.result); v.err == nil {
		v.patch, v.err = patchOf(v.asked.Object.Raw, v.sent.Object, v.result.Object)
	}
	if v.err != nil {
		v.err = invalid(v.err)
	}
}

// invalid returns the error of a result that breaks the contract.
func invalid(err error) error {
	return fmt.Errorf("its result is not valid: %w; correct the plugin", err)
}

// answer returns the response to a review that the plugin has answered.
func (v *review) answer() answer {
	r := &admissionv1.AdmissionResponse{UID: v.asked.UID, Allowed: v.result.Allowed, Warnings: v.result.Warnings}
	for _, a := range v.result.AuditAnnotations {
		if r.AuditAnnotations == nil {
			r.AuditAnnotations = map[string]string{}
		}
		r.AuditAnnotations[a.Name] = a.Value
	}
	result := resultAllowed
	switch {
	case !r.Allowed:
		result = resultDenied
		reason := cmp.Or(metav1.StatusReason(v.result.Reason), metav1.StatusReasonForbidden)
		r.Result = &metav1.Status{Status: metav1.StatusFailure, Reason: reason, Message: v.result.Message, Code: statusOf(reason)}
	case v.patch != nil:
		patchType := admissionv1.PatchTypeJSONPatch
		r.Patch, r.PatchType = v.patch, &patchType
	}
	return admissionAnswer(result, r)
}

// notReviewed returns the response to a review that has failed.
func (s *Server) notReviewed(v *review, err error) answer {
	return admissionAnswer(resultFailed, s.failureResponse(v.request, v.asked.UID, err))
}

func (s *Server) failureResponse(q *request, uid types.UID, err error) *admissionv1.AdmissionResponse {
	allowed, message := s.failed(q, err)
	r := &admissionv1.AdmissionResponse{UID: uid, Allowed: allowed}
	if allowed {
		r.Warnings = []string{sanitize.Truncate(message+" (ignored: failurePolicy)", maxWarning)}
	} else {
		r.Result = &metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonInternalError, Message: message, Code: http.StatusInternalServerError}
	}
	return r
}

// maxWarning is how many bytes the API server shows of a warning, if there are many.
const maxWarning = contract.MaxWarning

func admissionAnswer(result string, r *admissionv1.AdmissionResponse) answer {
	return answer{result: result, body: &admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Response: r,
	}}
}
