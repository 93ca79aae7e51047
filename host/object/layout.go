package object

import (
	"bytes"
	"errors"
	"strings"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
)

// lastApplied is the annotation with kubectl's copy of the object. It has up to
// half of the size of the object, and controllers do not need it.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// span is the half-open range [from, to) of a text.
type span struct{ from, to int }

// layout holds the positions of the parts of an object in its text.
type layout struct {
	kind     abi.Kind // in the text, which it aliases
	hasKind  bool     // the text has apiVersion or kind, even if empty
	body     span     // of the object, including the braces
	metadata span     // of the value of metadata
	managed  span     // of the value of metadata.managedFields
	cuts     []span   // parts of metadata that are removed, in order
}

// findParts returns the layout of an object. It reads the text once, and checks
// the syntax.
func findParts(raw []byte) (layout, error) {
	r := rawjson.NewReader(raw)
	var l layout
	r.Kind() // skips leading white space
	l.body.from = r.Pos()
	r.Object(func(field string) {
		switch field {
		case "apiVersion":
			l.kind.APIVersion, l.hasKind = r.String(), true
		case "kind":
			l.kind.Kind, l.hasKind = r.String(), true
		case "metadata":
			if l.metadata.to > 0 {
				r.Fail("field given twice")
				return
			}
			l.metadata.from = r.Pos()
			l.cutMetadata(r, raw)
			l.metadata.to = r.Pos()
		}
	})
	l.body.to = r.Pos()
	return l, r.End()
}

func (l *layout) cutMetadata(r *rawjson.Reader, raw []byte) {
	l.managed = l.cut(r, raw, "managedFields", func(field string) {
		if field == "annotations" && r.Kind() == '{' {
			l.cut(r, raw, lastApplied, func(string) {})
		}
	})
}

// cut reads an object and adds the position of the member with the name unwanted
// to the cuts, with its comma. visit may read the other members. It returns the
// position of the value that is cut.
func (l *layout) cut(r *rawjson.Reader, raw []byte, unwanted string, visit func(field string)) (value span) {
	end := r.Pos() + 1 // of the previous member, or of the opening brace
	kept, cutFirst := false, false
	r.Object(func(field string) {
		start := r.Pos()
		switch {
		case field == unwanted:
			r.Skip()
			value = span{start, r.Pos()}
			l.cuts = append(l.cuts, span{end, value.to})
			cutFirst = !kept
		case cutFirst: // no member is left before this one, so its comma is cut
			comma := end + bytes.IndexByte(raw[end:], ',')
			l.cuts = append(l.cuts, span{end, comma + 1})
			cutFirst = false
		}
		kept = kept || field != unwanted
		if field != unwanted {
			visit(field)
			if r.Pos() == start {
				r.Skip()
			}
		}
		end = r.Pos()
	})
	return value
}

// tidy returns a copy of an object that begins with the members in head and
// lacks the cuts, and the position of its metadata. The copy has no unused
// capacity.
func (l *layout) tidy(raw, head []byte) (text []byte, metadata span) {
	size := len(head) + l.body.to - l.body.from
	for _, c := range l.cuts {
		size -= c.to - c.from
	}
	text = append(make([]byte, 0, size), '{')
	text = append(text, head...)
	shift := len(head) - l.body.from
	at := l.body.from + 1
	for _, c := range l.cuts {
		text = append(text, raw[at:c.from]...)
		at = c.to
	}
	text = append(text, raw[at:l.body.to]...)
	cut := l.body.to - l.body.from + len(head) - size
	return text, span{l.metadata.from + shift, l.metadata.to + shift - cut}
}

// head returns apiVersion and kind as JSON members if the text lacks them, else
// nil, and the kind of the object. known is the kind that the caller expects.
func (l *layout) head(known abi.Kind) ([]byte, abi.Kind, error) {
	switch {
	case !l.hasKind && known.APIVersion != "" && known.Kind != "":
		w := rawjson.NewWriter(nil)
		w.Object(func() {
			w.Name("apiVersion").String(known.APIVersion)
			w.Name("kind").String(known.Kind)
		})
		head := w.Bytes()
		head[len(head)-1] = ',' // replaces the closing brace
		return head[1:], known, nil
	case l.kind.APIVersion == "" || l.kind.Kind == "":
		return nil, known, errors.New("apiVersion and kind are required")
	case l.kind == known:
		return nil, known, nil // its strings are shared by all objects of the kind
	}
	return nil, abi.Kind{
		APIVersion: strings.Clone(l.kind.APIVersion),
		Kind:       strings.Clone(l.kind.Kind),
	}, nil
}
