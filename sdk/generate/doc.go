// Package generate writes the codec of an author's types: Go source that reads
// and appends their JSON without reflection. `thole generate` is its command;
// it runs on the author's machine and is no part of a plugin.
//
// # What is generated
//
// Into each package one file, [FileName], with the methods
//
//	func (x *T) DecodeJSON(r *codec.Reader)
//	func (x T) AppendJSON(dst []byte) ([]byte, error)
//
// for those types T of the package that go through the SDK's codec: the spec
// and the status of a controller, what is given to Get, List, Apply, Patch,
// Config, Memo, SetMemo, Decode and Encode, the elements of Warm, and types
// with the line //thole:generate in the comment of their declaration. The line
// //thole:leave leaves a type to encoding/json. Types that these are made of
// get functions.
//
// The SDK uses such methods in place of encoding/json by itself. A struct of
// another package that embeds a type with methods inherits them for its own:
// generate there too, or name the field.
//
// # What it is equal to
//
// The methods do what encoding/json does, with these differences:
//
//   - names of members are matched exactly, as Kubernetes does; encoding/json
//     ignores case
//   - strings alias the input, and bytes in them that are not UTF-8 are passed
//     on; the host sends none
//   - <, > and & are written as they are, not as \u003c; so are U+2028 and U+2029
//   - types that contain themselves are read and written to a depth of
//     [codec.MaxDepth], as a guest's stack is small
//   - MarshalJSON and MarshalText on a pointer are called wherever the value
//     stands; encoding/json does so only where it has an address
//   - what a decoder leaves behind when it fails is not the same
//
// # What is refused
//
// A type that has no codec is an error that names it, its place in the
// author's types and in the source: interfaces, functions, channels, complex
// numbers, maps whose keys are not strings, json.Number, the tag option
// ",string". Nothing is written then.
package generate
