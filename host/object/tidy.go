package object

import (
	"bytes"
	"errors"
	"strings"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
)

// lastApplied is kubectl's copy of the object: up to half of its size, and
// of no use to a controller.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// span is a part of a text: bytes from to to-1.
type span struct{ from, to int }

// layout is where the parts of an object lie in its text.
type layout struct {
	kind     abi.Kind // as it stands in the text; aliases it
	kinded   bool     // apiVersion or kind stands there, be it empty
	body     span     // the object, from brace to brace
	metadata span     // the value of metadata
	cuts     []span   // what is left out, in order; all of it inside of metadata
}

// survey finds the parts of an object in one pass over its text, which also
// checks the syntax.
func survey(raw []byte) (layout, error) {
	r := rawjson.NewReader(raw)
	var l layout
	r.Kind() // steps over leading white space
	l.body.from = r.Pos()
	r.Object(func(field string) {
		switch field {
		case "apiVersion":
			l.kind.APIVersion, l.kinded = r.String(), true
		case "kind":
			l.kind.Kind, l.kinded = r.String(), true
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
	l.cut(r, raw, "managedFields", func(field string) {
		if field == "annotations" && r.Kind() == '{' {
			l.cut(r, raw, lastApplied, func(string) {})
		}
	})
}

// cut reads an object and notes the place of the member called unwanted with
// the comma that goes with it; visit may read the others.
func (l *layout) cut(r *rawjson.Reader, raw []byte, unwanted string, visit func(field string)) {
	end := r.Pos() + 1 // of the member before, at first of the opening brace
	kept, headless := false, false
	r.Object(func(field string) {
		start := r.Pos()
		switch {
		case field == unwanted:
			r.Skip()
			l.cuts = append(l.cuts, span{end, r.Pos()})
			headless = !kept
		case headless: // nothing kept stands before: the comma goes too
			comma := end + bytes.IndexByte(raw[end:], ',')
			l.cuts = append(l.cuts, span{end, comma + 1})
			headless = false
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
}

// tidy copies an object into a buffer of exactly its size, without what is
// cut, behind head, and returns it with the place of its metadata.
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

// head returns the members that a typed list leaves out of its items, nil if
// the text has them, and the object's kind. known is what the caller expects.
func (l *layout) head(known abi.Kind) ([]byte, abi.Kind, error) {
	switch {
	case !l.kinded && known.APIVersion != "" && known.Kind != "":
		w := rawjson.NewWriter(nil)
		w.Object(func() {
			w.Name("apiVersion").String(known.APIVersion)
			w.Name("kind").String(known.Kind)
		})
		head := w.Bytes()
		head[len(head)-1] = ',' // instead of the brace
		return head[1:], known, nil
	case l.kind.APIVersion == "" || l.kind.Kind == "":
		return nil, known, errors.New("apiVersion and kind are required")
	case l.kind == known:
		return nil, known, nil // shared by all objects of the kind
	}
	return nil, abi.Kind{
		APIVersion: strings.Clone(l.kind.APIVersion),
		Kind:       strings.Clone(l.kind.Kind),
	}, nil
}
