package pluginlist

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Formats lists what [List.Print] knows.
func Formats() []string { return []string{"table", "wide", "json"} }

const (
	shortDigest = 12 // hex digits
	shortError  = 60 // characters
)

// Print writes the plugins: a table that fits a terminal, a wide one that
// leaves nothing out, or json, which is what the host said.
func (l *List) Print(w io.Writer, format string) error {
	if format == "json" {
		return l.printJSON(w)
	}
	return l.printTable(w, format == "wide")
}

func (l *List) printJSON(w io.Writer) error {
	text, err := json.Marshal(l.raw)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", "  "); err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, out.String())
	return err
}

var header = []string{"NAME", "GENERATION", "STATE", "CONTROLLERS", "LOADS", "ROLLBACKS", "DIGEST", "VERSION", "LAST ERROR"}

func (l *List) printTable(w io.Writer, wide bool) error {
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, strings.Join(header, "\t"))
	for _, p := range l.plugins {
		fmt.Fprintln(table, strings.Join(p.row(wide), "\t"))
	}
	return table.Flush()
}

func (p Plugin) row(wide bool) []string {
	controllers, digest, lastError := strconv.Itoa(len(p.Controllers)), p.Digest, p.Problem()
	if wide {
		controllers = strings.Join(p.Controllers, ",")
	} else {
		digest, lastError = cut(digest, shortDigest, ""), cut(lastError, shortError, "...")
	}
	cells := []string{
		p.Name, strconv.Itoa(p.Generation), p.State, controllers,
		strconv.Itoa(p.Loads), strconv.Itoa(p.Rollbacks), digest, p.Version, lastError,
	}
	for i, cell := range cells {
		if cells[i] = printable(cell); cells[i] == "" {
			cells[i] = "-"
		}
	}
	return cells
}

// Problem is the last error and where it arose, and what the plugin cannot
// follow, in one line; "" if all is well.
func (p Plugin) Problem() string {
	var problems []string
	switch {
	case p.LastError != "" && p.RejectedFor != "":
		problems = append(problems, p.RejectedFor+": "+p.LastError)
	case p.LastError != "":
		problems = append(problems, p.LastError)
	}
	for _, kind := range p.CannotFollow {
		problems = append(problems, "cannot follow "+kind)
	}
	return printable(strings.Join(problems, "; "))
}

// printable keeps what a plugin says of itself from the terminal's control
// sequences, and from the table's columns.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || strconv.IsPrint(r) {
			return r
		}
		return -1
	}, s)
	return strings.Join(strings.Fields(s), " ")
}

func cut(s string, most int, end string) string {
	runes := []rune(printable(s))
	if len(runes) <= most {
		return string(runes)
	}
	return string(runes[:most-len(end)]) + end
}
