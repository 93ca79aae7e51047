package shapes

import (
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/sdk/codec"
	"github.com/thole-dev/thole/sdk/internal/shapes/parts"
)

// Subject is a type with a generated codec, for tests over all of them.
type Subject struct {
	Name string
	// New returns a pointer to a zero value.
	New func() Value
}

// Value is a pointer to a type with a generated codec.
type Value interface {
	DecodeJSON(r *codec.Reader)
	AppendJSON(dst []byte) ([]byte, error)
}

func of[T any, P interface {
	*T
	Value
}](name string) Subject {
	return Subject{name, func() Value { return P(new(T)) }}
}

// Subjects has all types of this package with a generated codec.
var Subjects = []Subject{
	of[Scalars]("Scalars"), of[Optional]("Optional"), of[Zero]("Zero"), of[Nested]("Nested"), of[Named]("Named"),
	of[Embedding]("Embedding"), of[Tags]("Tags"), of[Values]("Values"), of[Tree]("Tree"),
	of[List]("List"), of[Table]("Table"), of[Word]("Word"), of[parts.Generated]("Generated"),
	of[Compact]("Compact"), of[Visiting]("Visiting"), of[parts.Compact]("Visited"),
}

// Decode reads a text as the SDK does.
func Decode(text []byte, into Value) error {
	r := rawjson.NewReader(text)
	into.DecodeJSON(r)
	return r.End()
}

// Round decodes a text and encodes the value again. It returns the text or the error.
func (s Subject) Round(text []byte) string {
	v := s.New()
	if err := Decode(text, v); err != nil {
		return "decode: " + err.Error()
	}
	out, err := v.AppendJSON(nil)
	if err != nil {
		return "append: " + err.Error()
	}
	return string(out)
}
