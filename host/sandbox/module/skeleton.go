package module

import (
	"bytes"
	"fmt"

	"github.com/thole-dev/thole/abi/wasm"
)

// SkeletonSection is the custom section that holds the salt of a skeleton.
const SkeletonSection = "thole.skeleton"

// Skeleton writes a module again with bodies that trap in place of its own.
// Everything that an engine needs besides native code is there: signatures,
// imports, exports, globals, tables, segments and function names. A custom
// section holds the salt, so that two skeletons are equal only if their salts
// are. Other custom sections are left out: a module must not be able to bring a
// salt of its own.
func Skeleton(binary, salt []byte) ([]byte, error) {
	if err := checkHeader(binary); err != nil {
		return nil, err
	}
	out := []byte(wasm.Header)
	for r := wasm.NewReader(binary[len(wasm.Header):]); r.Len() > 0; {
		s, err := nextSection(r)
		if err != nil {
			return nil, err
		}
		switch names, named := validNames(s); {
		case s.id == wasm.CodeSection:
			if out, err = appendTraps(out, s.body); err != nil {
				return nil, err
			}
		case named:
			names = wasm.AppendName([]byte{functionNamesID}, names)
			out = wasm.AppendCustom(out, nameSection, names)
		case s.id != wasm.CustomSection:
			out = wasm.AppendSection(out, s.id, s.body)
		}
	}
	return wasm.AppendCustom(out, SkeletonSection, salt), nil
}

// validNames returns the map of function names in a name section, if the
// section is one and the map is well-formed.
func validNames(s section) ([]byte, bool) {
	names, ok := subsectionOfNames(s, functionNamesID)
	return names, ok && readNames(wasm.NewReader(names), nil)
}

// appendTraps appends a code section with as many bodies as the given one has.
// Each is valid for any signature: it has no locals, and its one instruction
// traps.
func appendTraps(out, code []byte) ([]byte, error) {
	r := wasm.NewReader(code)
	n := r.Count("function bodies", 3, len(code))
	if r.Err() != nil {
		return nil, fmt.Errorf("section %s: %w", wasm.CodeSection, r.Err())
	}
	trap := wasm.AppendOp(wasm.AppendOp(nil, wasm.OpUnreachable), wasm.OpEnd)
	bodies := bytes.Repeat(wasm.AppendBody(nil, nil, trap), n)
	return wasm.AppendSection(out, wasm.CodeSection, append(wasm.AppendU32(nil, uint32(n)), bodies...)), nil
}
