package webhooks

import (
	"bytes"
	"cmp"
	"math"
	"strings"
	"time"
	"unicode"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/message"
	"github.com/thole-dev/thole/abi/rawjson"
)

// This file has the messages of reviews.

// Limits of the results. Sizes are in bytes.
const (
	MaxWarnings         = 16  // of one review
	MaxWarning          = 256 // of one of them
	MaxAuditAnnotations = 16  // of one review
	MaxAuditValue       = 1 << 10
)

// ReviewRequest is the input of [ExportValidate] and [ExportMutate]: what somebody asks the API
// server to do with an object.
type ReviewRequest struct {
	Controller string // the name of the controller
	Operation  Operation
	DryRun     bool      // nothing will be stored
	User       User      // who asks
	Old        []byte    // JSON: the object as it is stored; nil with [OperationCreate]
	Now        time.Time // UTC: the time that every clock of the guest starts from
	Seed       [32]byte  // random, different for each call; not suitable for secrets
	Config     []byte    // JSON: the administrator's configuration of the plugin; nil if there is none
	Object     []byte    // JSON: the object as it would be stored; nil with [OperationDelete]
}

// User is somebody who asks the API server, as it has authenticated them.
type User struct {
	Name   string
	UID    string
	Groups []string
}

// ReviewResult is the message that [ExportValidate] and [ExportMutate] write. The zero value
// denies.
type ReviewResult struct {
	Allowed          bool
	Reason           string            // CamelCase, such as Invalid, of the answer if it is not allowed; "" means Forbidden
	Message          string            // why it is not allowed; truncated to abi.MaxErrorMessage
	Warnings         []string          // shown to who asks, also if it is allowed; on one line, each truncated to MaxWarning
	AuditAnnotations []AuditAnnotation // with distinct names
	Object           []byte            // JSON, of [ExportMutate] only: the object as it shall be; nil leaves it as it is
	Error            *abi.Failure      // with a code other than [abi.CodeOK]: the review has failed, and has neither allowed nor denied
}

// AuditAnnotation is a note in the audit log of the API server.
type AuditAnnotation struct {
	Name  string // as the name in a label key, without a prefix
	Value string // truncated to MaxAuditValue
}

// EncodeReviewRequestParts returns the text of the request of a review in parts, as
// [abi.EncodeRequestParts] does.
func EncodeReviewRequestParts(q *ReviewRequest) [][]byte {
	return message.EncodeParts(len(q.Old)+len(q.Config)+512, q.fieldsBeforeObject, q.Object)
}

// EncodeReviewRequest returns the text of the request of a review.
func EncodeReviewRequest(q *ReviewRequest) []byte {
	return bytes.Join(EncodeReviewRequestParts(q), nil)
}

// DecodeReviewRequest decodes the request of a review.
func DecodeReviewRequest(data []byte) (*ReviewRequest, error) {
	q := &ReviewRequest{}
	return message.Checked(q, message.Decode(data, func(f *message.Fields) {
		q.fieldsBeforeObject(f)
		f.Raw("object", &q.Object)
	}), nil)
}

// EncodeReviewResult returns the text that a review writes.
func EncodeReviewResult(out *ReviewResult) []byte {
	return message.Encode(len(out.Object)+256, out.fields)
}

// DecodeMutateResult decodes and checks what [ExportMutate] has written. Every error is a
// [*rawjson.Error] and of class abi. Empty data is an empty result: a guest that fails need not
// write one.
func DecodeMutateResult(data []byte) (*ReviewResult, error) {
	out := &ReviewResult{}
	if len(data) == 0 {
		return out, nil
	}
	return message.Checked(out, message.DecodeStrict(data, out.fields), out.check)
}

// DecodeValidateResult is [DecodeMutateResult] for [ExportValidate], which cannot change the
// object.
func DecodeValidateResult(data []byte) (*ReviewResult, error) {
	out, err := DecodeMutateResult(data)
	if err == nil && out.Object != nil {
		return nil, rawjson.NewError("object", "cannot be changed by validate: let mutate change it")
	}
	return out, err
}

func (q *ReviewRequest) fieldsBeforeObject(f *message.Fields) {
	f.Required("controller", &q.Controller)
	f.Required("operation", (*string)(&q.Operation))
	f.Bool("dryRun", &q.DryRun)
	f.Object("user", !q.User.isZero(), q.User.fields)
	f.Raw("old", &q.Old)
	f.Time("now", &q.Now)
	f.Seed("seed", &q.Seed)
	f.Raw("config", &q.Config)
}

func (u *User) isZero() bool { return u.Name == "" && u.UID == "" && len(u.Groups) == 0 }

func (u *User) fields(f *message.Fields) {
	f.Text("name", &u.Name)
	f.Text("uid", &u.UID)
	message.Texts(f, "groups", math.MaxInt, &u.Groups)
}

func (out *ReviewResult) fields(f *message.Fields) {
	f.Bool("allowed", &out.Allowed)
	f.Text("reason", &out.Reason)
	f.Text("message", &out.Message)
	message.Texts(f, "warnings", MaxWarnings, &out.Warnings)
	message.Objects(f, "auditAnnotations", MaxAuditAnnotations, &out.AuditAnnotations, (*AuditAnnotation).fields)
	f.RawObject("object", &out.Object)
	message.Pointer(f, "error", &out.Error, (*abi.Failure).Fields)
}

func (a *AuditAnnotation) fields(f *message.Fields) {
	f.Required("name", &a.Name)
	f.Required("value", &a.Value)
}

// check truncates messages and returns the first violation of a limit or rule.
func (out *ReviewResult) check() error {
	out.Error.Truncate()
	out.Message = rawjson.Truncate(out.Message, abi.MaxErrorMessage)
	for i, text := range out.Warnings {
		out.Warnings[i] = rawjson.Truncate(strings.Map(noControl, text), MaxWarning)
	}
	for i, a := range out.AuditAnnotations {
		out.AuditAnnotations[i].Value = rawjson.Truncate(a.Value, MaxAuditValue)
	}
	return cmp.Or(
		out.checkReason(),
		message.CheckEach("auditAnnotations", out.AuditAnnotations, AuditAnnotation.check),
		message.CheckDistinct("auditAnnotations", "name", out.AuditAnnotations, func(a AuditAnnotation) string { return a.Name }),
		out.checkObject(),
	)
}

// noControl returns a space for a control character: the API server drops a warning that has one.
func noControl(r rune) rune {
	if unicode.IsControl(r) {
		return ' '
	}
	return r
}

func (out *ReviewResult) checkReason() error {
	if out.Reason == "" {
		return nil
	}
	return abi.CheckReason(out.Reason, abi.MaxConditionReason)
}

func (out *ReviewResult) checkObject() error {
	if out.Object == nil || out.Allowed {
		return nil
	}
	return rawjson.NewError("object", "is there, but allowed is not true: what is denied cannot be changed")
}

// maxAuditName is the length of the name in a label key.
const maxAuditName = 63

func (a AuditAnnotation) check() error {
	if !abi.LabelName(a.Name) || len(a.Name) > maxAuditName {
		return rawjson.NewError("name", rawjson.Quote(a.Name)+" is not a name as in a label key (letters, digits, '-', '_' and '.', at most 63)")
	}
	return nil
}

// CheckResult checks the result of a review with [abi.CodeOK]: an object that takes the place of another
// one is of the same kind and version, and has its name, namespace and UID.
func (q *ReviewRequest) CheckResult(out *ReviewResult) error {
	if out.Object == nil {
		return nil
	}
	return rawjson.Within("object", checkIdentity(q.Object, out.Object, ""))
}

// checkIdentity compares what identifies an object before and after it was changed. apiVersion is
// what it shall have afterwards; "" for the same.
func checkIdentity(before, after []byte, apiVersion string) error {
	was, err := abi.Identity(before)
	if err != nil {
		return err
	}
	is, err := abi.Identity(after)
	was.APIVersion = cmp.Or(apiVersion, was.APIVersion)
	return cmp.Or(
		err,
		checkSame("apiVersion", was.APIVersion, is.APIVersion),
		checkSame("kind", was.Kind, is.Kind),
		checkSame("metadata.name", was.Name, is.Name),
		checkSame("metadata.namespace", was.Namespace, is.Namespace),
		checkSame("metadata.uid", was.UID, is.UID),
	)
}

func checkSame(path, want, got string) error {
	if got == want {
		return nil
	}
	return rawjson.NewError(path, "is "+rawjson.Quote(got)+", must be "+rawjson.Quote(want))
}
