package codec

import (
	"errors"
	"strconv"

	"github.com/thole-dev/thole/abi/rawjson"
)

// Error is why a value does not fit into its type, or has no form in JSON.
type Error struct {
	Path    string // such as "containers[1].image"; "" for the value as a whole
	Message string
}

func (e *Error) Error() string {
	if e.Path == "" {
		return e.Message
	}
	return e.Path + ": " + e.Message
}

// Within puts the path of an error below the member of that name; nil stays
// nil.
func Within(name string, err error) error { return below(name, err) }

// WithinKey is [Within] for a key of a map, which can be any text.
func WithinKey(name string, err error) error { return below("["+rawjson.Quote(name)+"]", err) }

// WithinElement is [Within] for an element of an array.
func WithinElement(index int, err error) error { return below("["+strconv.Itoa(index)+"]", err) }

func below(step string, err error) error {
	if err == nil {
		return nil
	}
	inner := ErrorOf(err)
	if inner.Path != "" && inner.Path[0] != '[' {
		step += "."
	}
	return &Error{Path: step + inner.Path, Message: inner.Message}
}

// ErrorOf returns what an error says of one value, without offsets.
func ErrorOf(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if e, ok := errors.AsType[*rawjson.Error](err); ok {
		return &Error{Path: e.Path, Message: e.Message}
	}
	return &Error{Message: err.Error()}
}

// ErrDepth is what a value is that is nested more than [MaxDepth] levels deep,
// as one is that contains itself.
var ErrDepth error = &Error{Message: "nested too deeply, or contains itself"}
