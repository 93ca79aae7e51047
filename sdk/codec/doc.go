// Package codec is what the code calls that `thole generate` writes: it reads
// and appends the values that a type is made of. An author has no need of it,
// except for a type that brings its own form:
//
//	func (c *Color) DecodeJSON(r *codec.Reader)
//	func (c Color) AppendJSON(dst []byte) ([]byte, error)
//
// Read functions do what encoding/json does: a null leaves a plain value as it
// is and empties a slice or map, what is there already is filled and not
// replaced, and an integer that does not fit is an error. Strings and raw
// values are slices of the input, which must not be changed while they are in
// use; nothing else is allocated but what the value itself holds.
//
// It imports nothing that uses reflection.
package codec
