// Package pluginlist gets the plugins of a running host and prints them: the logic
// of `thole plugins`.
package pluginlist

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/thole-dev/thole/host"
	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/sanitize"
)

// List is what /plugins of a host returned.
type List struct {
	plugins []host.PluginStatus
	raw     []json.RawMessage // the same, as the host wrote it
}

const (
	timeout  = 20 * time.Second
	maxReply = 64 << 20 // bytes
)

// Get returns the plugins of the host at an address such as http://127.0.0.1:8080;
// the scheme may be left out.
func Get(ctx context.Context, address string) (*List, error) {
	base, err := parseAddress(address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base.JoinPath("plugins").String(), nil)
	if err != nil {
		return nil, err
	}
	request.Close = true // it is the only one
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask the host: %w", err)
	}
	defer reply.Body.Close()
	list, err := read(reply)
	if err != nil {
		return nil, fmt.Errorf("%s: not the reply of a host: %w", request.URL, err)
	}
	return list, nil
}

// ValidateAddress checks the form of an address.
func ValidateAddress(address string) error {
	_, err := parseAddress(address)
	return err
}

func parseAddress(address string) (*url.URL, error) {
	full := address
	if !strings.Contains(full, "://") {
		full = "http://" + full
	}
	u, err := url.Parse(full)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("address: %q is not an address such as http://127.0.0.1:8080", address)
	}
	return u, nil
}

func read(reply *http.Response) (*List, error) {
	if reply.StatusCode != http.StatusOK {
		return nil, errors.New(reply.Status)
	}
	body, err := io.ReadAll(io.LimitReader(reply.Body, maxReply))
	if err != nil {
		return nil, err
	}
	return decode(body)
}

func decode(body []byte) (*List, error) {
	l := &List{}
	if err := json.Unmarshal(body, &l.raw); err != nil || l.raw == nil {
		return nil, errors.New("it is not a list of plugins")
	}
	for _, raw := range l.raw {
		var p host.PluginStatus
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

const (
	shortDigest = 12 // hex digits
	shortError  = 60 // bytes
)

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
	led := slices.ContainsFunc(l.plugins, func(p host.PluginStatus) bool { return p.Leader != "" || p.State == catalog.Standby })
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

func row(p *host.PluginStatus, wide bool) []string {
	controllers, digest, lastError, leader := strconv.Itoa(len(p.Controllers)), p.Digest, Problem(p), p.Leader
	if wide {
		controllers = strings.Join(p.Controllers, ",")
	} else {
		leader, _, _ = strings.Cut(leader, "_") // the name of the pod
		digest, lastError = digest[:min(len(digest), shortDigest)], sanitize.Truncate(lastError, shortError)
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

// Problem returns the last error with its step, what the plugin cannot follow, the
// rights that it lacks, what it waits for and which other module the leader runs, in one
// line; "" if there is no problem.
func Problem(p *host.PluginStatus) string {
	var problems []string
	switch {
	case p.LastError != "" && p.FailedStep != "":
		problems = append(problems, p.FailedStep+": "+p.LastError)
	case p.LastError != "":
		problems = append(problems, p.LastError)
	}
	for _, kind := range p.CannotFollow {
		problems = append(problems, "cannot follow "+kind)
	}
	problems = append(problems, p.MissingRights...)
	if p.WebhookProblem != "" {
		problems = append(problems, p.WebhookProblem)
	}
	if p.WaitsFor != "" {
		problems = append(problems, "waits for "+p.WaitsFor)
	}
	if p.OtherModule != "" {
		problems = append(problems, "the leader runs another module, "+p.OtherModule[:min(len(p.OtherModule), shortDigest)])
	}
	return strings.Join(strings.Fields(sanitize.Line(strings.Join(problems, "; "))), " ")
}
