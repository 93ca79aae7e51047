package inspect

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/effect"

	"github.com/thole-dev/thole/abi"
)

func (r *Report) summary() [][]string {
	rows := [][]string{
		{"Plugin", r.title()},
		{"Verdict", r.verdict()},
		{"Digest", or(r.Digest)},
		{"Size", size(uint64(r.Size))},
	}
	if r.Memory == nil {
		return rows
	}
	return append(rows,
		[]string{"ABI", or(list(r.ABIVersions))},
		[]string{"Toolchain", cmp.Or(r.Toolchain, "unknown")},
		[]string{"Memory", r.Memory.String()},
		[]string{"Instances", r.Instances.Mode + ": " + r.Instances.Why},
	)
}

func (r *Report) title() string {
	var m struct{ Version string }
	if len(r.Manifest) > 0 {
		_ = json.Unmarshal(r.Manifest, &m) // our own encoding
	}
	return strings.TrimSpace(r.Name + " " + m.Version)
}

func (r *Report) verdict() string {
	switch {
	case !r.Load.OK:
		return "refused at step " + r.Load.Step + ": " + r.Load.Error
	case len(r.Load.WaitsFor) > 0:
		return "would be loaded, and wait until the cluster serves " + list(r.Load.WaitsFor)
	}
	return "would be loaded"
}

func (m *Memory) String() string {
	switch {
	case m.Initial > m.Limit:
		return "needs " + size(m.Initial) + " at the start, more than the " + size(m.Limit) + " of the host"
	case m.Maximum > 0 && m.Maximum < m.Limit:
		return "starts with " + size(m.Start) + ", up to " + size(m.Maximum) + " by the module"
	}
	return "starts with " + size(m.Start) + ", up to " + size(m.Limit) + " by the host"
}

// size is a number of bytes for people.
func size(n uint64) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", n)
}

// controllerRow is a controller of the manifest for people.
type controllerRow struct {
	name string
	rows [][]string
}

// describe tells what a controller asks for and, where the host has the last
// word, what it gets.
func describe(plugin string, c *abi.Controller, limits config.Limits) controllerRow {
	finalizer := ""
	if c.Finalizer {
		finalizer = effect.Finalizer(plugin, c.Name)
	}
	return controllerRow{c.Name, [][]string{
		{"For", c.For.String()},
		{"Owns", or(kindList(c.Owns))},
		{"Reads", or(kindList(c.Reads))},
		{"Writes", or(kindList(c.Writes))},
		{"Finalizer", or(finalizer)},
		{"Interval", interval(c.Interval)},
		{"Timeout", bounded(milliseconds(c.Timeout), limits.Timeout.Duration)},
		{"Concurrency", bounded(c.Concurrency, limits.Concurrency)},
		{"Conditions", conditions(c.Conditions)},
	}}
}

func kindList(kinds []abi.Kind) string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = k.String()
	}
	return list(names)
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func interval(n int64) string {
	if n == 0 {
		return "none: runs when something changes"
	}
	return milliseconds(n).String() + " after a success"
}

// bounded tells a value that is asked for, 0 for the host's, which is the
// most that there is.
func bounded[T interface {
	~int | ~int64
}](asked, most T,
) string {
	switch {
	case asked == 0:
		return fmt.Sprintf("%v, the host's", most)
	case asked > most:
		return fmt.Sprintf("%v, as the host allows no more; %v is asked for", most, asked)
	}
	return fmt.Sprint(asked)
}

func conditions(c abi.Conditions) string {
	text := c.TargetOrReady()
	if len(c.Summarized) > 0 {
		text += " from " + list(c.Summarized)
	}
	if len(c.Owned) > 0 {
		text += "; owns " + list(c.Owned)
	}
	if len(c.NegativePolarity) > 0 {
		text += "; bad when True: " + list(c.NegativePolarity)
	}
	return text
}

// ruleRows marks a resource that was guessed with *, and one that is not
// always needed with **.
func ruleRows(rules []Rule) [][]string {
	rows := [][]string{{"API GROUP", "RESOURCE", "VERBS"}}
	for _, r := range rules {
		mark := ""
		if r.Guessed {
			mark = " *"
		}
		if r.OnlyIf != "" {
			mark += " **"
		}
		rows = append(rows, []string{cmp.Or(r.APIGroups[0], "core"), r.Resources[0] + mark, strings.Join(r.Verbs, " ")})
	}
	return rows
}

func (t *table) notes(rules []Rule) {
	guessed, only := false, ""
	for _, r := range rules {
		guessed, only = guessed || r.Guessed, cmp.Or(only, r.OnlyIf)
	}
	var rows [][]string
	if guessed {
		rows = append(rows, []string{"*", "guessed from the kind: --kubeconfig asks a cluster that has its CRD"})
	}
	if only != "" {
		rows = append(rows, []string{"**", "only if " + only})
	}
	t.rows("  ", rows)
}

// importRows has the functions of thole/v1 and what is refused one by one,
// then those of the system interface by what they are for.
func importRows(imports []Symbol) [][]string {
	var rows, system [][]string
	for _, s := range imports {
		if s.Module == wasiModule && s.Problem == "" {
			system = joinArea(system, s)
			continue
		}
		rows = append(rows, []string{s.Module, s.Name, cmp.Or(s.Problem, s.Meaning)})
	}
	return append(rows, system...)
}

// joinArea makes one row of the functions with one meaning.
func joinArea(rows [][]string, s Symbol) [][]string {
	for _, row := range rows {
		if row[2] == s.Meaning {
			row[1] = area(s.Name) + "_*"
			return rows
		}
	}
	return append(rows, []string{"wasi", s.Name, s.Meaning})
}

func exportRows(exports []Symbol) (rows [][]string) {
	for _, s := range exports {
		rows = append(rows, []string{s.Name, or(s.Type), cmp.Or(s.Problem, s.Meaning)})
	}
	return rows
}
