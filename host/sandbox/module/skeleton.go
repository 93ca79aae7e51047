package module

import (
	"encoding/binary"
	"fmt"
)

// SkeletonSection is the custom section that holds the salt of a skeleton.
const SkeletonSection = "thole.skeleton"

// unreachableBody is a function body for any signature: no locals, and one
// instruction that traps.
var unreachableBody = []byte{3, 0, 0x00, 0x0b}

// Skeleton writes a module again with bodies that trap in place of its own.
// What an engine needs beside native code is all there: signatures, imports,
// exports, globals, tables, segments and names. A custom section holds the
// salt, so that two skeletons are equal only if their salts are. Custom
// sections of the module other than its names are left out, so that it cannot
// bring a salt itself.
func Skeleton(wasm, salt []byte) ([]byte, error) {
	if err := checkHeader(wasm); err != nil {
		return nil, err
	}
	out := append([]byte(nil), wasm[:8]...)
	for r := (&reader{data: wasm, pos: 8}); r.left() > 0; {
		s, err := nextSection(r)
		if err != nil {
			return nil, err
		}
		switch {
		case s.id == codeSection:
			if out, err = appendTraps(out, s.body); err != nil {
				return nil, err
			}
		case s.id != customSection || functionNames(s.body) != nil:
			out = appendSection(out, s.id, s.body)
		}
	}
	return appendSection(out, customSection, custom(SkeletonSection, salt)), nil
}

// appendTraps writes a code section with as many bodies as the given one.
func appendTraps(out, code []byte) ([]byte, error) {
	r := &reader{data: code}
	n := r.count("function bodies", 3, len(code))
	if r.err != nil {
		return nil, fmt.Errorf("section %s: %w", sectionNames[codeSection], r.err)
	}
	body := binary.AppendUvarint(nil, uint64(n))
	for range n {
		body = append(body, unreachableBody...)
	}
	return appendSection(out, codeSection, body), nil
}

func custom(name string, data []byte) []byte {
	body := binary.AppendUvarint(nil, uint64(len(name)))
	body = append(body, name...)
	return append(body, data...)
}
