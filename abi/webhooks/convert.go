package webhooks

import (
	"bytes"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/message"
	"github.com/thole-dev/thole/abi/rawjson"
)

// This file has the messages of conversions.

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

// CheckResult checks the result of a conversion with [abi.CodeOK]: there is an object, it has the wanted
// apiVersion, and the kind, name, namespace and UID that it had.
func (q *ConvertRequest) CheckResult(out *ConvertResult) error {
	if out.Object == nil {
		return rawjson.NewError("object", "is required with code 0")
	}
	return rawjson.Within("object", checkIdentity(q.Object, out.Object, q.APIVersion))
}
