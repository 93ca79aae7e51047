package tck

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
)

// inspected is what [Check] needs of a module. It is read independently of
// any host's parser, so that the two check each other.
type inspected struct {
	types   []string
	imports []inspectedImport
	funcs   []uint32 // type indices, imports first
	exports map[string]string
	memory  bool // memory 0 is exported as "memory"
}

type inspectedImport struct{ module, name, signature string }

var errShort = errors.New("the bytes end early")

func inspect(wasm []byte) (*inspected, error) {
	if !bytes.HasPrefix(wasm, []byte("\x00asm\x01\x00\x00\x00")) {
		return nil, errors.New("not a WebAssembly 1 module")
	}
	out := &inspected{exports: map[string]string{}}
	c := &cursor{data: wasm[8:]}
	for len(c.data) > 0 && c.err == nil {
		id := c.byte()
		body := &cursor{data: c.take(c.number())}
		out.section(id, body)
		c.err = errors.Join(c.err, body.err)
	}
	return out, c.err
}

func (in *inspected) section(id byte, c *cursor) {
	switch id {
	case 1:
		c.each(func() { in.types = append(in.types, c.signature()) })
	case 2:
		c.each(func() { in.addImport(c) })
	case 3:
		c.each(func() { in.funcs = append(in.funcs, c.number()) })
	case 7:
		c.each(func() { in.addExport(c) })
	}
}

func (in *inspected) addImport(c *cursor) {
	i := inspectedImport{module: c.text(), name: c.text()}
	switch c.byte() {
	case 0:
		index := c.number()
		in.funcs = append(in.funcs, index)
		i.signature = in.typeOf(index)
	case 1:
		c.byte()
		c.limits()
	case 2:
		c.limits()
	default:
		c.take(2)
	}
	in.imports = append(in.imports, i)
}

func (in *inspected) addExport(c *cursor) {
	name, kind, index := c.text(), c.byte(), c.number()
	switch {
	case kind == 0 && int(index) < len(in.funcs):
		in.exports[name] = in.typeOf(in.funcs[index])
	case kind == 2 && name == "memory":
		in.memory = true
	default:
		in.exports[name] = "not a function"
	}
}

func (in *inspected) typeOf(index uint32) string {
	if int(index) < len(in.types) {
		return in.types[index]
	}
	return "of an unknown type"
}

// cursor reads bytes with a sticky error.
type cursor struct {
	data []byte
	err  error
}

func (c *cursor) take(n uint32) []byte {
	if uint64(n) > uint64(len(c.data)) {
		c.err, c.data = errShort, nil
		return nil
	}
	out := c.data[:n]
	c.data = c.data[n:]
	return out
}

func (c *cursor) byte() byte {
	if b := c.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (c *cursor) number() uint32 {
	v, n := binary.Uvarint(c.data)
	if n <= 0 || v > 1<<32-1 {
		c.err, c.data = errShort, nil
		return 0
	}
	c.data = c.data[n:]
	return uint32(v)
}

func (c *cursor) text() string { return string(c.take(c.number())) }

func (c *cursor) limits() {
	bounded := c.byte() == 1
	c.number()
	if bounded {
		c.number()
	}
}

// each reads a vector; it ends with the bytes, whatever the vector claims.
func (c *cursor) each(read func()) {
	for range c.number() {
		if c.err != nil {
			return
		}
		read()
	}
}

func (c *cursor) signature() string {
	c.byte()
	params, results := c.take(c.number()), c.take(c.number())
	return "(" + typeNames(params) + ") -> (" + typeNames(results) + ")"
}

func typeNames(types []byte) string {
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = typeName(t)
	}
	return strings.Join(names, ", ")
}

func typeName(t byte) string {
	switch t {
	case 0x7f:
		return "i32"
	case 0x7e:
		return "i64"
	case 0x7d:
		return "f32"
	case 0x7c:
		return "f64"
	case 0x7b:
		return "v128"
	}
	return "reference"
}
