// Package webhooks is what hosts and guests share of the capability by which the API server asks a controller about
// its objects: whether somebody may create, change or delete one, how it is to be stored, and what it is in another
// version. SPEC.md specifies it.
package webhooks

import (
	"cmp"
	"slices"
	"strings"

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
