// Package module reads the parts of a WebAssembly binary that the sandbox
// must know before any of it is compiled: signatures, imports, exports,
// limits, and whether the code can change state that an image reset does
// not reach.
//
// The input is hostile. Every vector count is checked against the bytes that
// are left and against a fixed maximum before anything is allocated for it,
// nothing recurses, and one pass over the bytes is all there is. It checks
// structure, not types: the engine validates what passes here.
package module
