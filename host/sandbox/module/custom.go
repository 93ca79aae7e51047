package module

import (
	"cmp"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/thole-dev/thole/abi/wasm"
)

// This file reads custom sections: the names of functions, which stack traces
// show, and the tools that made the module. Both are conventions of compilers
// and a convenience for people. An error in them is no reason to refuse a
// module, unless a section claims more names than it has bytes for.

// The name section and its subsections (7.4).
const (
	nameSection     = "name"
	functionNamesID = 1
	localNamesID    = 2
)

func (m *Module) readCustom(r *wasm.Reader) error {
	name := r.Bytes(r.U32())
	if m.customs++; m.customs > maxCustom {
		r.Failf("too large: more than %d custom sections", maxCustom)
	}
	if string(name) == nameSection && r.Err() == nil {
		return checkNames(r)
	}
	return r.Err()
}

// custom returns the contents of the custom sections of that name, in order.
func (m *Module) custom(name string) (contents []*wasm.Reader) {
	for _, s := range m.sections {
		if r := wasm.NewReader(s.body); s.id == wasm.CustomSection && string(r.Bytes(r.U32())) == name {
			contents = append(contents, r)
		}
	}
	return contents
}

// checkNames returns an error for a name section that claims more names than
// it has bytes for, and for no other reason.
func checkNames(r *wasm.Reader) error {
	for r.Len() > 0 {
		id := r.Byte()
		names := r.Sub(r.U32())
		switch id {
		case functionNamesID:
			names.Count("names of functions", 2, MaxFunctions)
		case localNamesID:
			skipLocalNames(names)
		}
		if names.Err() != nil && !errors.Is(names.Err(), wasm.ErrTruncated) {
			return names.Err()
		}
	}
	if errors.Is(r.Err(), wasm.ErrTruncated) {
		return nil
	}
	return r.Err()
}

func skipLocalNames(r *wasm.Reader) {
	for range r.Count("functions with named locals", 2, MaxFunctions) {
		r.U32()
		for range r.Count("names of locals", 2, MaxLocals) {
			r.U32()
			r.Bytes(r.U32())
		}
	}
}

// functionNames returns the name of each function. A malformed section names no
// function. One without a name is named by its index: the engine's stack traces
// would show the one that it has in a rewritten module.
func (m *Module) functionNames() []string {
	names := make([]string, len(m.Functions))
	for _, r := range m.custom(nameSection) {
		if readFunctionNames(r, names) {
			break
		}
		clear(names)
	}
	for i, name := range names {
		names[i] = cmp.Or(name, "$"+strconv.Itoa(i))
	}
	return names
}

// readFunctionNames reads a name section. It returns false if the section does
// not name functions.
func readFunctionNames(r *wasm.Reader, names []string) bool {
	for r.Len() > 0 {
		id := r.Byte()
		if subsection := r.Sub(r.U32()); id == functionNamesID {
			return readNames(subsection, names)
		}
	}
	return false
}

// readNames reads a map from functions to names into names, as far as they have
// room. It returns false if the map is malformed.
func readNames(r *wasm.Reader, names []string) bool {
	for range r.Count("names", 2, MaxFunctions) {
		index, name := r.U32(), r.Bytes(r.U32())
		if !utf8.Valid(name) {
			return false
		}
		if uint64(index) < uint64(len(names)) && r.Err() == nil {
			names[index] = strings.ToValidUTF8(string(name[:min(len(name), maxNameLength)]), "")
		}
	}
	return r.Err() == nil && r.Len() == 0
}

// Producer is a tool that took part in making the module, according to the
// module: nothing verifies it.
type Producer struct{ Name, Version string }

const (
	maxProducerFields = 16
	maxProducers      = 64 // of one field
	maxProducerName   = 128
)

// Producers returns the tools that the section "producers" lists, in its order.
// There are none if the section is absent or malformed. The format is described
// in the WebAssembly tool conventions, ProducersSection.md.
func (m *Module) Producers() []Producer {
	sections := m.custom("producers")
	if len(sections) == 0 {
		return nil
	}
	tools := readProducers(sections[0])
	if sections[0].Err() != nil || sections[0].Len() > 0 {
		return nil
	}
	return tools
}

func readProducers(r *wasm.Reader) (tools []Producer) {
	for range r.Count("producer fields", 2, maxProducerFields) {
		processed := r.Name() == "processed-by" // the other fields list languages and SDKs
		for range r.Count("producers", 2, maxProducers) {
			p := Producer{Name: readPrintable(r), Version: readPrintable(r)}
			if processed {
				tools = append(tools, p)
			}
		}
	}
	return tools
}

// readPrintable reads a text that can be written to a terminal as it is.
func readPrintable(r *wasm.Reader) string {
	text := r.Name()
	if len(text) > maxProducerName || !utf8.ValidString(text) {
		r.Failf("malformed: a producer of %d bytes", len(text))
		return ""
	}
	for _, c := range text {
		if c < ' ' || c >= 0x7f && c < 0xa0 {
			r.Failf("malformed: a producer with the control character %#x", c)
		}
	}
	return text
}
