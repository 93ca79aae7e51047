package inspect

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/rights"
	"github.com/thole-dev/thole/host/sandbox"
	"github.com/thole-dev/thole/host/sanitize"
)

func (r *Report) summary() [][]string {
	rows := [][]string{
		{"Plugin", r.title()},
		{"Verdict", r.verdict()},
		{"Digest", orDash(r.Digest)},
		{"Size", size(uint64(r.Size))},
	}
	for _, note := range r.Notes {
		rows = append(rows, []string{"Note", note})
	}
	if r.PolicyFile != "" {
		rows = append(rows, []string{"Policy", r.PolicyFile})
	}
	if r.Memory == nil {
		return rows
	}
	return append(rows,
		[]string{"ABI", orDash(list(r.ABIVersions))},
		[]string{"Toolchain", cmp.Or(r.Toolchain, "unknown")},
		[]string{"Memory", r.Memory.String()},
		[]string{"Instances", r.Instances.Mode + ": " + r.Instances.Why},
	)
}

func (r *Report) title() string {
	var m struct{ Version string }
	if len(r.Manifest) > 0 {
		_ = json.Unmarshal(r.Manifest, &m) // was encoded by abi
	}
	return strings.TrimSpace(r.Name + " " + m.Version)
}

func (r *Report) verdict() string {
	switch {
	case !r.Load.OK:
		return "refused at step " + r.Load.Step + ": " + r.Load.Error
	case len(r.Load.WaitsFor) > 0:
		return "would be loaded, and wait: " + strings.Join(r.Load.Advice, "; ")
	}
	if r.Policy != nil {
		return "would be loaded, and wait until its policy allows what is below"
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

// size formats a number of bytes.
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

// ruleRows marks a guessed resource with *, and a rule that is not always needed
// with **.
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
		where := ""
		if len(r.ResourceNames) > 0 {
			where = " of " + list(r.ResourceNames)
		}
		if len(r.Namespaces) > 0 {
			where += " in " + list(r.Namespaces)
		}
		rows = append(rows, []string{cmp.Or(r.APIGroups[0], "core"), r.Resources[0] + mark, strings.Join(r.Verbs, " ") + where})
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
		rows = append(rows, []string{"*", "guessed from the kind: use --kubeconfig with a cluster that has its CRD"})
	}
	if only != "" {
		rows = append(rows, []string{"**", "only if " + only})
	}
	t.rows("  ", rows)
}

// policy writes a policy as YAML, which may be pasted with its indentation.
func (t *table) policy(p *config.Needs) {
	t.section("Policy")
	lines := []string{"apiVersion: " + rights.APIVersion}
	for _, name := range slices.Sorted(maps.Keys(p.Sections)) {
		lines = append(lines, name+": "+p.Sections[name].Text)
	}
	if p.Entries != nil {
		lines = append(lines, "allow:")
	}
	for _, e := range p.Entries {
		lines = append(lines, entryLines(e.Fields())...)
	}
	for _, line := range lines {
		fmt.Fprintf(t, "  %s\n", sanitize.Line(line))
	}
}

// entryLines returns an element of a list with fields, as YAML.
func entryLines(fields []string) (lines []string) {
	for i, field := range fields {
		first := "  "
		if i == 0 {
			first = "- "
		}
		for j, line := range wrap(field, width-8) {
			if j > 0 {
				line = "  " + line
			}
			lines = append(lines, first+line)
			first = "  "
		}
	}
	return lines
}

// importRows returns a row for each function of thole/v1 and each refused import,
// and then one for each area of WASI.
func importRows(imports []Symbol) [][]string {
	var rows, wasi [][]string
	for _, s := range imports {
		if s.Module == wasiModule && s.Problem == "" {
			wasi = addToArea(wasi, s)
			continue
		}
		rows = append(rows, []string{s.Module, s.Name, cmp.Or(s.Problem, s.Meaning)})
	}
	return append(rows, wasi...)
}

// addToArea adds a function to the row of its area.
func addToArea(rows [][]string, s Symbol) [][]string {
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
		rows = append(rows, []string{s.Name, orDash(s.Type), cmp.Or(s.Problem, s.Meaning)})
	}
	return rows
}

const wasiModule = "wasi_snapshot_preview1"

// importMeanings describe the functions of thole/v1.
var importMeanings = map[string]string{
	abi.ImportInput:  "reads the request, and the replies to calls",
	abi.ImportOutput: "writes the manifest or the result",
	abi.ImportLog:    "writes lines to the host's log",
	abi.ImportGet:    "reads one object, of what the controller follows",
	abi.ImportList:   "lists objects, of what the controller follows",
}

// wasiMeanings describe what a guest gets from WASI, by [area].
var wasiMeanings = map[string]string{
	"args":    "arguments: a name alone, plugin",
	"environ": "environment variables: there are none",
	"clock":   "time: that of the call",
	"poll":    "sleeping: passes at once, on the call's clock",
	"sched":   "yielding: not served",
	"random":  "random bytes: from the call's seed",
	"fd":      "standard output and error, kept for failures; no files",
	"path":    "files: there are none",
	"sock":    "sockets: there are none",
	"proc":    "ending itself: counts as a panic",
}

// meaning describes an import. It returns "" if the host does not provide it.
func meaning(module, name string) string {
	switch module {
	case abi.ImportModule:
		return importMeanings[name]
	case wasiModule:
		return wasiMeanings[area(name)]
	}
	return ""
}

// area returns the part of WASI to which a function belongs.
func area(name string) string {
	first, _, _ := strings.Cut(name, "_")
	return first
}

// exportMeanings describe the exports of the ABI.
var exportMeanings = map[string]string{
	abi.ExportMarker:     "marks the ABI version, never called",
	abi.ExportDescribe:   "returns the manifest",
	abi.ExportReconcile:  "reconciles one object",
	abi.ExportInitialize: "starts the language's runtime, once",
	abi.ExportWarm:       "prepares for the first call, once",
	abi.ExportMemory:     "the memory that host and plugin share",
}

// instances describes the mode of the instances.
func instances(m *sandbox.ModuleInfo) *Instances {
	why := map[string]string{
		"reset":  "memory and globals are restored after each call",
		"pooled": "state is kept between calls in one namespace, unless its policy has the isolation pooled: ",
		"fresh":  "every call gets a new instance: ",
	}[m.Mode]
	return &Instances{Mode: m.Mode, Why: why + m.ModeWhy}
}

// toolchain returns the compiler that the module names, "" if it names none.
func toolchain(m *sandbox.ModuleInfo) string {
	first := ""
	for _, p := range m.Producers {
		switch p.Name {
		case "TinyGo":
			return "TinyGo " + p.Version
		case "Go cmd/compile":
			return "Go " + strings.TrimPrefix(p.Version, "go")
		}
		if first == "" {
			first = strings.TrimSpace(p.Name + " " + p.Version)
		}
	}
	return first
}
