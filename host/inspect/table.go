package inspect

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"sigs.k8s.io/yaml"

	"github.com/thole-dev/thole/host/sanitize"
)

// Formats returns the formats of [Report.Print].
func Formats() []string { return []string{"table", "json", "yaml"} }

// Print writes the report in one of [Formats].
func (r *Report) Print(w io.Writer, format string) error {
	var text []byte
	var err error
	switch format {
	case "table":
		text = r.table()
	case "json":
		text, err = r.json()
	case "yaml":
		text, err = yaml.Marshal(r)
	default:
		err = fmt.Errorf("format %q: not one of %s", format, list(Formats()))
	}
	if err == nil {
		_, err = w.Write(text)
	}
	return err
}

func (r *Report) json() ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // signatures have arrows
	e.SetIndent("", "  ")
	err := e.Encode(r)
	return text.Bytes(), err
}

// width is the number of columns of the table, unless single words are longer.
const width = 80

// table returns the report as a table.
func (r *Report) table() []byte {
	t := &table{}
	t.rows("", r.summary())
	for i, c := range r.controllers {
		t.section("Controller " + c.name)
		t.rows("  ", c.rows)
		t.section("Rights for " + c.name)
		t.rows("  ", ruleRows(r.Rights[i].Rules))
		t.notes(r.Rights[i].Rules)
	}
	if r.Policy != nil {
		t.policy(r.Policy)
	}
	if len(r.Imports) > 0 {
		t.section("Imports")
		t.rows("  ", importRows(r.Imports))
	}
	if len(r.Exports) > 0 {
		t.section("Exports")
		t.rows("  ", exportRows(r.Exports))
	}
	return t.Bytes()
}

func list(words []string) string { return strings.Join(words, ", ") }

func orDash(text string) string { return cmp.Or(text, "-") }

// table is text in columns.
type table struct{ bytes.Buffer }

func (t *table) section(title string) { fmt.Fprintf(t, "\n%s\n", sanitize.Line(title)) }

// rows writes rows with aligned columns, and wraps the last column.
func (t *table) rows(indent string, rows [][]string) {
	left := width - len(indent)
	for _, w := range widths(rows) {
		left -= w + gap
	}
	w := tabwriter.NewWriter(t, 0, 0, gap, ' ', 0)
	for _, row := range rows {
		first := row[:len(row)-1]
		for _, line := range wrap(sanitize.Line(row[len(row)-1]), max(left, narrowest)) {
			fmt.Fprint(w, indent)
			for _, cell := range first {
				fmt.Fprint(w, sanitize.Line(cell), "\t")
			}
			fmt.Fprintln(w, line)
			first = make([]string, len(first))
		}
	}
	_ = w.Flush() // writes to memory
}

const (
	gap       = 2  // between columns
	narrowest = 24 // width of the last column
)

// widths returns the widths of all columns but the last.
func widths(rows [][]string) []int {
	var widest []int
	for _, row := range rows {
		for i, cell := range row[:len(row)-1] {
			if i == len(widest) {
				widest = append(widest, 0)
			}
			widest[i] = max(widest[i], utf8.RuneCountInString(cell))
		}
	}
	return widest
}

// wrap breaks a text between words into lines of at most limit characters.
// Longer words have lines of their own.
func wrap(text string, limit int) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > limit {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return append(lines, line)
}
