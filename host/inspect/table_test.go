package inspect

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/sanitize"
)

func TestWrapBreaksBetweenWords(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want []string
	}{
		{"", 10, []string{""}},
		{"one two three", 7, []string{"one two", "three"}},
		{"one two three", 8, []string{"one two", "three"}},
		{"much-too-long word", 5, []string{"much-too-long", "word"}},
		{"größer als", 10, []string{"größer als"}},
	} {
		if got := wrap(c.text, c.most); strings.Join(got, "|") != strings.Join(c.want, "|") {
			t.Errorf("wrap %q at %d: %q, want %q", c.text, c.most, got, c.want)
		}
	}
}

func TestSizeIsFormattedInBinaryUnits(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0 bytes", 1023: "1023 bytes", 1 << 10: "1 KiB", 1500: "1.5 KiB", 64 << 20: "64 MiB", 3916802: "3.7 MiB",
	} {
		if got := size(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestRequestedValuesAreShownWithTheLimitsOfTheHost(t *testing.T) {
	limits := config.Config{}.WithDefaults().Limits
	c := &abi.Controller{
		Name: "a", For: widget.All(), Finalizer: true, Gone: true, Interval: 60_000, Timeout: 30_000, Concurrency: 2,
		Sections: []abi.Section{{Name: "every", Value: []byte("3")}},
		Conditions: abi.Conditions{
			Target: "Synced", Owned: []string{"Fetched"}, Summarized: []string{"Fetched", "Stored"}, NegativePolarity: []string{"Stalled"},
			Summaries: []abi.Summary{{Target: "Stored", Summarized: []string{"Fetched"}}},
		},
	}
	rows := []func(*abi.Controller) (string, string){
		func(c *abi.Controller) (string, string) { return "Every", string(c.Section("every")) },
		func(c *abi.Controller) (string, string) { return "None", string(c.Section("none")) },
	}
	have := map[string]string{}
	for _, row := range describe(&abi.Manifest{Name: "p"}, c, limits, rows).rows {
		have[row[0]] = row[1]
	}
	for name, want := range map[string]string{
		"For":       "example.com/v1 Widget",
		"Reads":     "-",
		"Finalizer": "p.thole.dev/a",
		"Gone":      "runs for objects that are gone",
		"Interval":  "1m0s after a success",

		"Every":       "3",
		"None":        "-",
		"Timeout":     "10s, the limit; 30s is requested",
		"Concurrency": "2",
		"Conditions":  "Synced from Fetched, Stored (bad when True: Stalled); Stored from Fetched; owns Fetched",
	} {
		if have[name] != want {
			t.Errorf("%s: %q, want %q", name, have[name], want)
		}
	}
	if got := bounded(time.Duration(0), 10*time.Second); got != "10s, the limit" {
		t.Error(got)
	}
}

func TestRowsHaveWhatIsFollowed(t *testing.T) {
	c := &abi.Controller{
		Name: "a", For: abi.Followed{Kind: widget, Selector: abi.Selector{Namespaces: []string{"x", "y"}, LabelSelector: "a in (b,c)", FieldSelector: "metadata.name=n", MetadataOnly: true}},
		Owns:  []abi.Followed{pod.All(), {Kind: deployment, Selector: abi.Selector{MetadataOnly: true}}},
		Reads: []abi.Followed{{Kind: gadget, PollInterval: 5000}, {Kind: configMap, Selector: abi.Selector{LabelSelector: "app=x"}, PollInterval: 1}},
		Watches: []abi.Watch{
			{Followed: pod.All(), By: abi.WatchByOwner},
			{Followed: pod.All(), By: abi.WatchByLabel, Key: "example.com/widget"},
			{Followed: abi.Followed{Kind: configMap, Selector: abi.Selector{MetadataOnly: true}}, By: abi.WatchByField, Field: "spec.name"},
		},
	}
	for _, managed := range []bool{false, true} {
		m, owns := &abi.Manifest{Name: "p"}, "v1 Pod, apps/v1 Deployment (metadata only)"
		if c.Applied = ""; managed {
			m.Managed, owns = true, "v1 Pod (managed by the plugin; without thole.dev/applied), apps/v1 Deployment (metadata only; managed by the plugin; without thole.dev/applied)"
			c.Applied = abi.AppliedMemory
		}
		have := map[string]string{}
		for _, row := range describe(m, c, config.Config{}.WithDefaults().Limits, nil).rows {
			have[row[0]] = row[1]
		}
		for name, want := range map[string]string{
			"For":        "example.com/v1 Widget (namespaces x, y; labelSelector a in (b,c); fieldSelector metadata.name=n; metadata only)",
			"Owns":       owns,
			"Conditions": "none: only metadata is followed",
			"Reads":      "example.com/v1 Gadget (pollInterval 5s), v1 ConfigMap (labelSelector app=x; pollInterval 1s)",
			"Watches":    "v1 Pod by owner, v1 Pod by label example.com/widget, v1 ConfigMap (metadata only) by field spec.name",
		} {
			if have[name] != want {
				t.Errorf("%s: %q, want %q", name, have[name], want)
			}
		}
	}
}

// TestTableFitsTheWidth covers reports of any content: no line is wider than the
// table, ends in a blank, or has characters that are not printable.
func TestTableFitsTheWidth(t *testing.T) {
	word := rapid.StringMatching(`[A-Za-z0-9]{1,12}`)
	kind := rapid.Custom(func(t *rapid.T) abi.Kind {
		return abi.Kind{APIVersion: word.Draw(t, "group") + ".io/v1", Kind: word.Draw(t, "kind")}
	})
	kindsOf := rapid.SliceOfNDistinct(kind, 0, 5, rapid.ID)
	rapid.Check(t, func(t *rapid.T) {
		m := &abi.Manifest{Name: "p", Version: rapid.String().Draw(t, "version"), Controllers: []abi.Controller{{
			Name: "c", For: kind.Draw(t, "for").All(), Owns: abi.AllOf(kindsOf.Draw(t, "owns")...), Reads: abi.AllOf(kindsOf.Draw(t, "reads")...), Writes: kindsOf.Draw(t, "writes"),
			Conditions: abi.Conditions{Summarized: rapid.SliceOfN(word, 0, 20).Draw(t, "summarized")},
		}}}
		m.Version = strings.Join(strings.Fields(m.Version), " ")
		r := &Report{Name: "p", Digest: strings.Repeat("0", 64), Load: Load{OK: true}}
		if err := r.addManifest(t.Context(), m, config.Policy{Limits: config.Config{}.WithDefaults().Limits}, Options{}); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(r.table())) {
			line = strings.TrimSuffix(line, "\n")
			if utf8.RuneCountInString(line) > width && !strings.HasPrefix(line, "Plugin") {
				t.Errorf("%d characters: %s", utf8.RuneCountInString(line), line)
			}
			if strings.TrimRight(line, " ") != line || sanitize.Line(line) != line {
				t.Errorf("%q", line)
			}
		}
	})
}

func TestTableHasNoControlCharacters(t *testing.T) {
	r := &Report{
		Name: "p", Memory: &Memory{}, Instances: &Instances{}, Toolchain: "Evil\x1b[2J",
		Imports: []Symbol{{Module: "env\x07", Name: "\x1b]0;title", Problem: "no \u202e such thing"}},
	}
	text := string(r.table())
	if strings.ContainsAny(text, "\x1b\x07\u202e") || !strings.Contains(text, `Evil [2J`) {
		t.Errorf("%q", text)
	}
}

func TestJSONAndYAMLAreReadBackAsTheReport(t *testing.T) {
	r := inspect(t, file(t, "echo.wasm", guest(t, "echo")))
	var asJSON, asYAML bytes.Buffer
	if err := r.Print(&asJSON, "json"); err != nil {
		t.Fatal(err)
	}
	if err := r.Print(&asYAML, "yaml"); err != nil {
		t.Fatal(err)
	}
	converted, err := yaml.YAMLToJSON(asYAML.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range [][]byte{asJSON.Bytes(), converted} {
		var got Report
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&got); err != nil {
			t.Fatal(err)
		}
		m, err := abi.DecodeManifest(got.Manifest)
		if err != nil || m.Name != "echo" || got.Digest != r.Digest || len(got.Rights) != 1 {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if err := r.Print(&asJSON, "xml"); err == nil {
		t.Error("xml was printed")
	}
}

func TestImportsOfWASIAreGroupedByArea(t *testing.T) {
	symbol := func(module, name string) Symbol {
		return Symbol{Module: module, Name: name, Meaning: meaning(module, name)}
	}
	refused := Symbol{Module: wasiModule, Name: "fd_dance", Problem: "not known"}
	have := importRows([]Symbol{
		symbol(wasiModule, "fd_write"), symbol(wasiModule, "random_get"), symbol(abi.ImportModule, abi.ImportGet),
		symbol(wasiModule, "fd_read"), refused, symbol(wasiModule, "fd_close"),
	})
	want := [][]string{
		{"thole/v1", "get", importMeanings["get"]},
		{wasiModule, "fd_dance", "not known"},
		{"wasi", "fd_*", wasiMeanings["fd"]},
		{"wasi", "random_get", wasiMeanings["random"]},
	}
	if !reflect.DeepEqual(have, want) {
		t.Errorf("%q, want %q", have, want)
	}
}
