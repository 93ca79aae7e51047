package inspect

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache/scope"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/outcome/handled"
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
		return "would be loaded, and wait until the cluster serves " + list(r.Load.WaitsFor)
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

// controllerRows are the rows of one controller.
type controllerRows struct {
	name string
	rows [][]string
}

// describe returns the rows of a controller: what it requests, and what the
// limits of the host leave of that.
func describe(m *abi.Manifest, c *abi.Controller, limits config.Limits) controllerRows {
	finalizer := ""
	if c.Finalizer {
		finalizer = effect.Finalizer(m.Name, c.Name)
	}
	var managed []string
	if slices.Contains(m.Features, abi.FeatureManaged) {
		managed = []string{"managed by the plugin"}
	}
	return controllerRows{c.Name, [][]string{
		{"For", scope.Describe(c.For)},
		{"Owns", orDash(followedList(c.Owns, managed...))},
		{"Reads", orDash(followedList(c.Reads))},
		{"Watches", orDash(watchList(c.Watches))},
		{"Writes", orDash(kindList(c.Writes))},
		{"Finalizer", orDash(finalizer)},
		{"Changes", orDash(changes(m, c))},
		{"Interval", interval(c.Interval)},
		{"Timers", orDash(timers(c.Timers))},
		{"Daemon", orDash(daemon(c.Daemon))},
		{"Scans", orDash(scans(c.Scans))},
		{"Gauges", orDash(gauges(c.Gauges))},
		{"CloudEvents", orDash(cloudEvents(c))},
		{"Receives", orDash(receives(c.Receives))},
		{"HTTP", orDash(httpHosts(c.HTTP))},
		{"Reviews", orDash(reviews(c))},
		{"Timeout", bounded(milliseconds(c.Timeout), limits.Timeout.Duration)},
		{"Concurrency", bounded(c.Concurrency, limits.Concurrency)},
		{"Conditions", conditions(c)},
	}}
}

// changes describes where the handled state of objects is kept, and whether a run comes for
// those that are gone.
func changes(m *abi.Manifest, c *abi.Controller) string {
	text := string(c.Changes)
	if c.Changes == abi.ChangesAnnotation {
		text += " " + handled.Annotation(m.Name, c.Name)
	}
	if c.Gone {
		text = strings.TrimPrefix(text+"; runs for objects that are gone", "; ")
	}
	return text
}

// daemon describes which objects have a daemon.
func daemon(d *abi.Daemon) string {
	switch {
	case d == nil:
		return ""
	case d.LabelSelector == "":
		return "one for each object"
	}
	return "one for each object with labels " + d.LabelSelector
}

// scans describes scans such as "due 30s". Less than a second counts as one.
func scans(all []abi.Scan) string {
	texts := make([]string, len(all))
	for i, s := range all {
		texts[i] = s.Name + " " + milliseconds(max(s.Interval, 1000)).String()
	}
	return list(texts)
}

// gauges describes gauges such as "phase of status.phase".
func gauges(all []abi.Gauge) string {
	texts := make([]string, len(all))
	for i, g := range all {
		texts[i] = g.Name + " of " + g.Field
	}
	return list(texts)
}

// cloudEvents describes what the host publishes.
func cloudEvents(c *abi.Controller) string {
	if !c.CloudEvents {
		return ""
	}
	return "of each change and of the end of each run"
}

// receives describes events such as "com.example.stopped by index container from data.id".
func receives(all []abi.Receive) string {
	texts := make([]string, len(all))
	for i, r := range all {
		texts[i] = r.Type
		if r.DataSchema != "" {
			texts[i] = strings.TrimSpace(r.Type + " of schema " + r.DataSchema)
		}
		if r.Resolve == nil {
			texts[i] += " by subject"
		} else {
			texts[i] += " by index " + r.Resolve.Index + " from " + r.Resolve.From
		}
	}
	return list(texts)
}

// httpHosts describes hosts such as "api.example.com (GET, POST)".
func httpHosts(hosts []abi.HTTPHost) string {
	texts := make([]string, len(hosts))
	for i, h := range hosts {
		texts[i] = fmt.Sprintf("%s (%s)", h.Host, cmp.Or(list(h.Methods), "GET"))
	}
	return list(texts)
}

// reviews describes which requests to the API server the controller reviews, and whether it converts.
func reviews(c *abi.Controller) string {
	var all []string
	for _, r := range []struct {
		verb       string
		operations []abi.Operation
	}{{"validates", c.Validate}, {"mutates", c.Mutate}} {
		var names []string
		for _, o := range r.operations {
			names = append(names, string(o))
		}
		if len(names) > 0 {
			all = append(all, r.verb+" "+list(names))
		}
	}
	if c.Convert {
		all = append(all, "converts between versions")
	}
	return strings.Join(all, "; ")
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

// timers describes timers such as "probe 1m0s (first after 5s; idle for 30s; sharp)".
func timers(all []abi.Timer) string {
	texts := make([]string, len(all))
	for i, t := range all {
		var details []string
		if t.InitialDelay > 0 {
			details = append(details, "first after "+milliseconds(t.InitialDelay).String())
		}
		if t.Idle > 0 {
			details = append(details, "idle for "+milliseconds(t.Idle).String())
		}
		if t.Sharp {
			details = append(details, "sharp")
		}
		texts[i] = t.Name + " " + milliseconds(t.Interval).String()
		if len(details) > 0 {
			texts[i] += " (" + strings.Join(details, "; ") + ")"
		}
	}
	return list(texts)
}

// bounded describes a requested value, where 0 requests the one of the host,
// which is also the maximum.
func bounded[T ~int | ~int64](requested, limit T) string {
	switch {
	case requested == 0:
		return fmt.Sprintf("%v, the host's", limit)
	case requested > limit:
		return fmt.Sprintf("%v, the limit of the host; %v is requested", limit, requested)
	}
	return fmt.Sprint(requested)
}

func conditions(controller *abi.Controller) string {
	if controller.For.MetadataOnly {
		return "none: only metadata is followed"
	}
	c := controller.Conditions
	parts := []string{summary(c.TargetOrReady(), c.Summarized, c.NegativePolarity)}
	for _, s := range c.Summaries {
		parts = append(parts, summary(s.Target, s.Summarized, s.NegativePolarity))
	}
	if len(c.Owned) > 0 {
		parts = append(parts, "owns "+list(c.Owned))
	}
	return strings.Join(parts, "; ")
}

// summary describes a target condition and what it depends on.
func summary(target string, summarized, negative []string) string {
	if len(summarized) > 0 {
		target += " from " + list(summarized)
	}
	if len(negative) > 0 {
		target += " (bad when True: " + list(negative) + ")"
	}
	return target
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
func (t *table) policy(p *Policy) {
	t.section("Policy")
	lines := []string{"apiVersion: " + p.APIVersion}
	if p.Daemons {
		lines = append(lines, "daemons: true")
	}
	if p.Webhooks != nil {
		lines = append(lines, "webhooks: {}")
	}
	if p.Allow != nil {
		lines = append(lines, "allow:")
	}
	for _, e := range p.Allow {
		lines = append(lines, entryLines(e.Fields())...)
	}
	if p.HTTP != nil {
		lines = append(lines, "http:")
	}
	for _, e := range p.HTTP {
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
	abi.ImportInput:    "reads the request, and the replies to calls",
	abi.ImportOutput:   "writes the manifest or the result",
	abi.ImportLog:      "writes lines to the host's log",
	abi.ImportGet:      "reads one object, of what the controller follows",
	abi.ImportList:     "lists objects, of what the controller follows",
	abi.ImportIndexGet: "finds objects by keys that the plugin gives",
	abi.ImportHTTP:     "sends HTTP requests, to hosts that the manifest declares and the policy allows",
}

// wasiMeanings describe what a guest gets from WASI, by [area].
var wasiMeanings = map[string]string{
	"args":    "arguments: there are none",
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
	abi.ExportIndex:      "gives keys to an object",
	abi.ExportDaemon:     "makes one step of the daemon of an object",
	abi.ExportValidate:   "allows or denies a request to the API server",
	abi.ExportMutate:     "changes the object of a request to the API server",
	abi.ExportConvert:    "converts an object to another version",
	abi.ExportScan:       "finds the objects to run",
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
