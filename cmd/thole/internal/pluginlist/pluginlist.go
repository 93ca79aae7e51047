// Package pluginlist gets the plugins of a running host and prints them: the logic
// of `thole plugins`.
package pluginlist

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/runner"
	"github.com/thole-dev/thole/host/sanitize"
)

// List is what /plugins of a host returned.
type List struct {
	plugins []runner.PluginStatus
	raw     []json.RawMessage // the same, as the host wrote it
}

func decode(body []byte) (*List, error) {
	l := &List{}
	if err := json.Unmarshal(body, &l.raw); err != nil || l.raw == nil {
		return nil, errors.New("it is not a list of plugins")
	}
	for _, raw := range l.raw {
		var p runner.PluginStatus
		// A host of another version may have a field of another type: it is left out.
		mismatch := new(json.UnmarshalTypeError)
		if err := json.Unmarshal(raw, &p); err != nil && !errors.As(err, &mismatch) || p.Name == "" {
			return nil, errors.New("an entry is not a plugin")
		}
		l.plugins = append(l.plugins, p)
	}
	return l, nil
}

// Select returns the named plugins, in the order of the host; all if there are no
// names. Names that the host does not have are an error.
func (l *List) Select(names []string) (*List, error) {
	if len(names) == 0 {
		return l, nil
	}
	missing := map[string]bool{}
	for _, name := range names {
		missing[name] = true
	}
	wanted := &List{raw: []json.RawMessage{}}
	for i, p := range l.plugins {
		if _, ok := missing[p.Name]; ok {
			wanted.plugins, wanted.raw = append(wanted.plugins, p), append(wanted.raw, l.raw[i])
			missing[p.Name] = false
		}
	}
	var errs []error
	for _, name := range names {
		if missing[name] {
			missing[name] = false // report it once
			errs = append(errs, fmt.Errorf("the host has no plugin %q", name))
		}
	}
	return wanted, errors.Join(errs...)
}

// Formats lists the formats of [List.Print].
func Formats() []string { return []string{"table", "wide", "json"} }

const shortError = 60 // bytes

// Print writes the plugins: as a table that fits a terminal, as a wide one with
// everything, or as json, as the host wrote it.
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

var header = []string{"NAME", "REVISION", "STATE", "LEADER", "CONTROLLERS", "LOADS", "ROLLBACKS", "DIGEST", "VERSION", "LAST ERROR"}

func (l *List) printTable(w io.Writer, wide bool) error {
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	led := slices.ContainsFunc(l.plugins, func(p runner.PluginStatus) bool { return p.Leader != "" || p.State == catalog.Standby })
	line := func(cells []string) {
		if !led { // there is one replica
			cells = slices.Concat(cells[:leaderColumn], cells[leaderColumn+1:])
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	line(header)
	for _, p := range l.plugins {
		line(row(&p, wide))
	}
	return table.Flush()
}

var leaderColumn = slices.Index(header, "LEADER")

func row(p *runner.PluginStatus, wide bool) []string {
	controllers, digest, lastError, leader := strconv.Itoa(len(p.Controllers)), p.Digest, p.Problem(), p.Leader
	if wide {
		controllers = strings.Join(p.Controllers, ",")
	} else {
		leader, _, _ = strings.Cut(leader, "_") // the name of the pod
		digest, lastError = runner.ShortDigest(digest), sanitize.Truncate(lastError, shortError)
	}
	cells := []string{
		p.Name, strconv.Itoa(p.Revision), string(p.State), leader, controllers,
		strconv.Itoa(p.Loads), strconv.Itoa(p.Rollbacks), digest, p.Version, lastError,
	}
	for i, cell := range cells {
		if cells[i] = strings.TrimSpace(sanitize.Line(cell)); cells[i] == "" {
			cells[i] = "-"
		}
	}
	return cells
}
