package sandbox

import (
	"errors"
	"reflect"

	"github.com/tetratelabs/wazero/api"
)

// mostStack is how large the engine's stack of a call may be, in bytes. The
// engine doubles stacks until some 80 MB; that much for each call would be out
// of proportion to the memory that a plugin may have, and nothing can pause
// the copy of it. A tick looks at the size (RATIONALE.md, "Why is the stack
// limited at ticks?").
const mostStack = 8 << 20

// keptStack is how large the stack of an idle instance may be.
const keptStack = 256 << 10

// errStack is the cause of an overrun of the stack.
var errStack = errors.New("stack overflow")

// nativeStack is the stack that the engine keeps for a function that the host
// calls.
type nativeStack struct{ bytes reflect.Value }

// nativeStackOf looks into the engine's function, as there is no other way to learn
// the size. TestNativeStack fails for an engine that has it elsewhere.
func nativeStackOf(f api.Function) nativeStack {
	v := reflect.ValueOf(f)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return nativeStack{}
	}
	field := v.Elem().FieldByName("stack")
	if field.Kind() != reflect.Slice {
		return nativeStack{}
	}
	return nativeStack{field}
}

// size is in bytes, now.
func (s nativeStack) size() int {
	if !s.bytes.IsValid() {
		return 0
	}
	return s.bytes.Len()
}
