package module

import "unicode/utf8"

// Producer is a tool that had a part in making the module, as the module
// says: nothing holds it to the truth.
type Producer struct{ Name, Version string }

const (
	maxProducerFields = 16
	maxProducers      = 64 // of one field
	maxProducerName   = 128
)

// Producers lists the tools of a section "producers", the convention of
// compilers to name themselves, in its order. Like all custom sections it may
// be malformed or absent: then there are none.
func (m *Module) Producers() []Producer {
	for _, s := range m.sections {
		r := &reader{data: s.body}
		if s.id != customSection || r.name() != "producers" {
			continue
		}
		tools := readProducers(r)
		if r.err != nil || r.left() > 0 {
			return nil
		}
		return tools
	}
	return nil
}

func readProducers(r *reader) (tools []Producer) {
	for range r.count("producer fields", 2, maxProducerFields) {
		processed := r.name() == "processed-by" // the others are languages
		for range r.count("producers", 2, maxProducers) {
			p := Producer{Name: readPrintable(r), Version: readPrintable(r)}
			if processed {
				tools = append(tools, p)
			}
		}
	}
	return tools
}

// readPrintable reads a text that is fit to be shown on a terminal.
func readPrintable(r *reader) string {
	text := r.name()
	if len(text) > maxProducerName || !utf8.ValidString(text) {
		r.failf("malformed: a producer of %d bytes", len(text))
		return ""
	}
	for _, c := range text {
		if c < ' ' || c >= 0x7f && c < 0xa0 {
			r.failf("malformed: a producer with the control character %#x", c)
		}
	}
	return text
}
