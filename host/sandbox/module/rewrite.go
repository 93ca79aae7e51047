package module

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// GlobalExport is the name under which [Module.ExportGlobals] exports the
// mutable global of that index.
func GlobalExport(index uint32) string {
	return GlobalPrefix + strconv.FormatUint(uint64(index), 10)
}

// ExportGlobals writes the module again with an export for every mutable
// global that holds a number, as the engine lets the host reach exported
// globals only. Custom sections are left out, except for the function names,
// which stacks are told with; nothing else changes.
func (m *Module) ExportGlobals() ([]byte, error) {
	for _, e := range m.Exports {
		if strings.HasPrefix(e.Name, GlobalPrefix) {
			return nil, fmt.Errorf("export %q uses the reserved prefix %q: rename it", e.Name, GlobalPrefix)
		}
	}
	out := append([]byte(nil), magic...)
	out = append(out, coreVersion...)
	named := false
	for _, s := range m.sections {
		switch s.id {
		case customSection:
			if names := functionNames(s.body); names != nil && !named {
				out, named = appendSection(out, customSection, names), true
			}
		case exportSection:
			out = appendSection(out, exportSection, m.withGlobals(s.body))
		default:
			out = appendSection(out, s.id, s.body)
		}
	}
	return out, nil
}

func appendSection(out []byte, id sectionID, body []byte) []byte {
	out = append(out, byte(id))
	out = binary.AppendUvarint(out, uint64(len(body)))
	return append(out, body...)
}

// withGlobals is the export section with the added exports behind its own.
func (m *Module) withGlobals(body []byte) []byte {
	r := &reader{data: body}
	n := uint64(r.u32())
	var added []byte
	for _, index := range m.MutableGlobals() {
		if !m.Globals[index].Type.Number() {
			continue
		}
		name := GlobalExport(index)
		added = binary.AppendUvarint(added, uint64(len(name)))
		added = append(added, name...)
		added = append(added, byte(GlobalKind))
		added = binary.AppendUvarint(added, uint64(index))
		n++
	}
	out := binary.AppendUvarint(nil, n)
	out = append(out, body[r.pos:]...)
	return append(out, added...)
}

const functionNamesID = 1

// functionNames is a name section with nothing but its function names, or
// nil if the section is another one or malformed: names are a convenience,
// and never a reason to refuse a module.
func functionNames(body []byte) []byte {
	r := &reader{data: body}
	if r.name() != "name" {
		return nil
	}
	for r.left() > 0 {
		id := r.byte()
		names := r.bytes(r.u32())
		if r.err != nil {
			return nil
		}
		if id == functionNamesID && validNames(names) {
			out := append([]byte("\x04name"), functionNamesID)
			out = binary.AppendUvarint(out, uint64(len(names)))
			return append(out, names...)
		}
	}
	return nil
}

func validNames(names []byte) bool {
	r := &reader{data: names}
	for range r.count("names", 2, MaxFunctions) {
		r.u32()
		if !utf8.Valid(r.bytes(r.u32())) {
			return false
		}
	}
	return r.err == nil && r.left() == 0
}
