// Package changes is what hosts and guests share of the capability by which each run is told how its object differs
// from what the last run was given that ended well. SPEC.md specifies it.
package changes

import (
	"bytes"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/message"
	"github.com/thole-dev/thole/abi/rawjson"
)

// Name is the name of the capability: of its section in a controller of a manifest, in a request and in a result.
const Name = "changes"

// MaxProgress is how many bytes of JSON the progress of a result may have.
const MaxProgress = 4 << 10

// Mode is where the host keeps what the last run that ended well was given of an object. It is the section of a
// controller.
type Mode string

const (
	Memory     Mode = "memory"     // of the host: lost when that restarts or another replica takes over
	Annotation Mode = "annotation" // of the object, without its status
)

// Encode returns the section of a controller with this mode.
func (m Mode) Encode() []byte { return []byte(rawjson.Quote(string(m))) }

// Decode decodes the section of a controller; an empty text is as none. Every error is a [*rawjson.Error].
func Decode(section []byte) (Mode, error) {
	r := rawjson.NewReader(section)
	mode := Mode(r.String())
	if err := r.End(); err != nil {
		return "", err
	}
	switch mode {
	case "", Memory, Annotation:
		return mode, nil
	default:
		return "", rawjson.NewError("", rawjson.Quote(string(mode))+" is not one of memory, annotation")
	}
}

// Check checks the section of a controller, see [abi.Manifest.CheckSections].
func Check(c *abi.Controller, section []byte) error {
	mode, err := Decode(section)
	if err == nil && mode == Annotation && c.For.Sensitive() {
		return rawjson.NewError("", rawjson.Quote(string(mode))+" would copy the content of "+c.For.Kind.String()+" into its annotations: use memory")
	}
	return err
}

// Of returns the mode of a controller whose sections were checked, "" if it has none.
func Of(c *abi.Controller) Mode {
	switch section := c.Section(Name); {
	case section == nil:
		return ""
	case bytes.Equal(section, annotation): // no decoding: hosts call it for each event
		return Annotation
	case bytes.Equal(section, memory):
		return Memory
	default: // with an escape
		mode, _ := Decode(section)
		return mode
	}
}

var memory, annotation = Memory.Encode(), Annotation.Encode()

// Change is how an object differs from what the last run that ended well was given: the section of a request. It
// is best effort: whatever it lacks is in the object.
type Change struct {
	Type     Type
	Old      []byte // JSON: what that run was given; nil if there was none, or the host does not have it
	Progress []byte // JSON: what the runs since then have stored, see [Result]
}

// Type is why a run sees an object.
type Type string

const (
	Created       Type = "created"        // no run has ended well for it
	Updated       Type = "updated"        // it differs in more than its status
	StatusUpdated Type = "status-updated" // it differs in its status
	Deleted       Type = "deleted"        // it is being deleted, or is gone
	Resumed       Type = "resumed"        // the first run of this host or revision; it may differ
	Resynced      Type = "resynced"       // it does not differ
)

// Encode returns the section of a request.
func (c *Change) Encode() []byte { return message.Encode(len(c.Old)+len(c.Progress)+64, c.fields) }

// DecodeChange decodes the section of a request, nil for none. The values alias it.
func DecodeChange(section []byte) (*Change, error) {
	if section == nil {
		return nil, nil
	}
	c := &Change{}
	return message.Checked(c, message.Decode(section, c.fields), nil)
}

func (c *Change) fields(f *message.Fields) {
	f.Required("type", (*string)(&c.Type))
	f.Raw("old", &c.Old)
	f.Raw("progress", &c.Progress)
}

// Result is the section of a result.
type Result struct {
	Progress []byte // JSON of up to [MaxProgress] bytes, kept until a run ends well
}

// Encode returns the section of a result.
func (out *Result) Encode() []byte { return message.Encode(len(out.Progress)+16, out.fields) }

// DecodeResult decodes and checks the section of a result, nil for none. Every error is a [*rawjson.Error]. Progress
// does not alias the section, because it outlives the run.
func DecodeResult(section []byte) (*Result, error) {
	out := &Result{}
	if section == nil {
		return out, nil
	}
	err := message.DecodeStrict(section, out.fields)
	out.Progress = bytes.Clone(out.Progress)
	return message.Checked(out, err, func() error { return message.CheckLength("progress", len(out.Progress), MaxProgress) })
}

// CheckResult checks the section of a result for a controller.
func CheckResult(c *abi.Controller, section []byte) error {
	if Of(c) == "" {
		return rawjson.NewError("", "needs changes of the controller in the manifest")
	}
	_, err := DecodeResult(section)
	return err
}

func (out *Result) fields(f *message.Fields) { f.Raw("progress", &out.Progress) }
