// Package webhooks is what hosts and guests share of the capability by which the API server asks a controller about
// its objects: whether somebody may create, change or delete one, how it is to be stored, and what it is in another
// version. SPEC.md specifies it.
package webhooks

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/message"
	"github.com/thole-dev/thole/abi/rawjson"
)

// Name is the name of the capability: of its section in a controller of a manifest, in a policy, and in the file of
// --config.
const Name = "webhooks"

// The functions of a guest that are called, each (len i32) -> i32.
const (
	ExportValidate = "validate" // required by validate of a section
	ExportMutate   = "mutate"   // required by mutate of a section
	ExportConvert  = "convert"  // required by convert of a section
)

// Limits of the results. Sizes are in bytes.
const (
	MaxWarnings         = 16  // of one review
	MaxWarning          = 256 // of one of them
	MaxAuditAnnotations = 16  // of one review
	MaxAuditValue       = 1 << 10
)

// Webhooks is what the API server asks a controller about the objects of its primary kind.
type Webhooks struct {
	Validate []Operation // distinct: [ExportValidate] reviews the requests
	Mutate   []Operation // distinct, without [OperationDelete]: [ExportMutate] reviews the requests
	Convert  bool        // [ExportConvert] converts the objects, of a custom resource, between its versions
}

// Operation is what a request to the API server does with an object.
type Operation string

const (
	OperationCreate Operation = "CREATE" // there is no old object
	OperationUpdate Operation = "UPDATE" // there are both
	OperationDelete Operation = "DELETE" // there is no new object
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

// ConvertRequest is the input of [ExportConvert]: one object of a custom resource, and the version
// that it shall have.
type ConvertRequest struct {
	Controller string    // the name of the controller
	APIVersion string    // the wanted one, with the group of the object's
	Now        time.Time // UTC: the time that every clock of the guest starts from
	Seed       [32]byte  // random, different for each call; not suitable for secrets
	Config     []byte    // JSON: the administrator's configuration of the plugin; nil if there is none
	Object     []byte    // JSON: the object, in another version
}

// ConvertResult is the message that [ExportConvert] writes.
type ConvertResult struct {
	Object []byte       // JSON: the object in the wanted version
	Error  *abi.Failure // with a code other than [abi.CodeOK]
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

// EncodeConvertRequestParts returns the text of the request of a conversion in parts, as
// [abi.EncodeRequestParts] does.
func EncodeConvertRequestParts(q *ConvertRequest) [][]byte {
	return message.EncodeParts(len(q.Config)+256, q.fieldsBeforeObject, q.Object)
}

// EncodeConvertRequest returns the text of the request of a conversion.
func EncodeConvertRequest(q *ConvertRequest) []byte {
	return bytes.Join(EncodeConvertRequestParts(q), nil)
}

// DecodeConvertRequest decodes the request of a conversion.
func DecodeConvertRequest(data []byte) (*ConvertRequest, error) {
	q := &ConvertRequest{}
	return message.Checked(q, message.Decode(data, func(f *message.Fields) {
		q.fieldsBeforeObject(f)
		f.Raw("object", &q.Object)
	}), nil)
}

// EncodeConvertResult returns the text that a conversion writes.
func EncodeConvertResult(out *ConvertResult) []byte {
	return message.Encode(len(out.Object)+64, out.fields)
}

// DecodeConvertResult decodes and checks what [ExportConvert] has written, without the request: see
// [ConvertRequest.CheckResult]. Every error is a [*rawjson.Error] and of class abi. Empty data is
// an empty result: a guest that fails need not write one.
func DecodeConvertResult(data []byte) (*ConvertResult, error) {
	out := &ConvertResult{}
	if len(data) == 0 {
		return out, nil
	}
	return message.Checked(out, message.DecodeStrict(data, out.fields), func() error {
		out.Error.Truncate()
		return nil
	})
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

func (q *ConvertRequest) fieldsBeforeObject(f *message.Fields) {
	f.Required("controller", &q.Controller)
	f.Required("apiVersion", &q.APIVersion)
	f.Time("now", &q.Now)
	f.Seed("seed", &q.Seed)
	f.Raw("config", &q.Config)
}

func (out *ConvertResult) fields(f *message.Fields) {
	f.RawObject("object", &out.Object)
	message.Pointer(f, "error", &out.Error, (*abi.Failure).Fields)
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

// CheckResult checks the result of a conversion with [abi.CodeOK]: there is an object, it has the wanted
// apiVersion, and the kind, name, namespace and UID that it had.
func (q *ConvertRequest) CheckResult(out *ConvertResult) error {
	if out.Object == nil {
		return rawjson.NewError("object", "is required with code 0")
	}
	return rawjson.Within("object", checkIdentity(q.Object, out.Object, q.APIVersion))
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

// maxOperations is the number of operations that there are.
const maxOperations = 3

// Encode returns the section of a controller with these webhooks.
func Encode(w *Webhooks) []byte { return message.Encode(64, w.fields) }

// Section returns the section with its name.
func (w Webhooks) Section() abi.Section { return abi.Section{Name: Name, Value: Encode(&w)} }

// Decode decodes the section of a controller. Every error is a [*rawjson.Error].
func Decode(section []byte) (*Webhooks, error) {
	w := &Webhooks{}
	return message.Checked(w, message.DecodeStrict(section, w.fields), nil)
}

// Of returns the webhooks of a controller of a checked manifest, the zero value if it has none.
func Of(c *abi.Controller) Webhooks {
	if section := c.Section(Name); section != nil {
		if w, err := Decode(section); err == nil { // always
			return *w
		}
	}
	return Webhooks{}
}

// Exports returns the functions of a guest that are called.
func Exports() []string { return []string{ExportValidate, ExportMutate, ExportConvert} }

// Calls reports whether a section makes the host call one of [Exports].
func (w Webhooks) Calls(export string) bool {
	switch export {
	case ExportValidate:
		return len(w.Validate) > 0
	case ExportMutate:
		return len(w.Mutate) > 0
	}
	return w.Convert
}

// NeededFor returns a function that reports whether a guest needs one of [Exports] because of a section.
func NeededFor(export string) func(section []byte) bool {
	return func(section []byte) bool {
		w, err := Decode(section)
		return err == nil && w.Calls(export)
	}
}

// Imports returns the functions of the host that a call of one of [Exports] may use. The result of a conversion
// depends on its request alone.
func Imports(export string) []string {
	if export == ExportConvert {
		return []string{}
	}
	return []string{abi.ImportGet, abi.ImportList}
}

func (w *Webhooks) fields(f *message.Fields) {
	message.Texts(f, "validate", maxOperations, &w.Validate)
	message.Texts(f, "mutate", maxOperations, &w.Mutate)
	f.Bool("convert", &w.Convert)
}

// Check checks the section of a controller, see [abi.Manifest.CheckSections].
func Check(c *abi.Controller, section []byte) error {
	w, err := Decode(section)
	switch {
	case err != nil:
		return err
	case len(w.Validate) == 0 && len(w.Mutate) == 0 && !w.Convert:
		return rawjson.NewError("", "has none of validate, mutate and convert: name one of them, or leave the section out")
	case w.Convert && !strings.Contains(c.For.Group(), "."):
		return rawjson.NewError("convert", rawjson.Quote(c.For.Kind.String())+" is not a custom resource, whose group has a dot: only these have versions that a plugin converts")
	}
	return cmp.Or(
		checkOperations("validate", w.Validate, OperationCreate, OperationUpdate, OperationDelete),
		checkOperations("mutate", w.Mutate, OperationCreate, OperationUpdate),
	)
}

// CheckManifest refuses a second controller that converts a kind: the versions of a custom resource have one
// conversion. The sections were checked.
func CheckManifest(m *abi.Manifest) error {
	by := map[string]string{}
	return message.CheckEach("controllers", m.Controllers, func(c abi.Controller) error {
		if !Of(&c).Convert {
			return nil
		}
		kind := c.For.Group() + "/" + c.For.Kind.Kind
		if other, ok := by[kind]; ok {
			return rawjson.Within(Name, rawjson.NewError("convert", rawjson.Quote(c.For.Kind.String())+" is converted by the controller "+rawjson.Quote(other)+" already: let one of them do it"))
		}
		by[kind] = c.Name
		return nil
	})
}

// checkOperations checks that each operation is one of these, and is given once.
func checkOperations(field string, operations []Operation, all ...Operation) error {
	return cmp.Or(
		message.CheckEach(field, operations, func(o Operation) error {
			if slices.Contains(all, o) {
				return nil
			}
			return rawjson.NewError("", rawjson.Quote(string(o))+" is not one of "+joinOperations(all))
		}),
		message.CheckDistinct(field, "", operations, func(o Operation) string { return string(o) }),
	)
}

func joinOperations(all []Operation) string {
	names := make([]string, len(all))
	for i, o := range all {
		names[i] = string(o)
	}
	return strings.Join(names, ", ")
}
