package source

import (
	"testing"

	"github.com/hashicorp/go-hclog"
)

func TestPluginNameIgnoresTemporaryFiles(t *testing.T) {
	for file, want := range map[string]string{
		"a.wasm":           "a",
		"my-plugin.wasm":   "my-plugin",
		"tmp.wasm":         "tmp",
		"Not_A_Label.wasm": "Not_A_Label", // is refused when it is loaded
		"with.dot.wasm":    "with.dot",

		"a":                               "",
		"a.WASM":                          "",
		".wasm":                           "",
		"a.wasm.tmp":                      "",
		"a.tmp.wasm":                      "",
		"a.part.wasm":                     "",
		"a.wasm.part":                     "",
		".hidden.wasm":                    "",
		"..data":                          "",
		"..2026_11_20_17_00_00.123456789": "",
		"4913":                            "", // vim checks whether it may create files
		".a.wasm.swp":                     "",
		".a.wasm.swx":                     "",
		"a.wasm~":                         "",
		"#a.wasm#":                        "", // emacs
		"#a.wasm":                         "",
		".#a.wasm":                        "",
		"~a.wasm":                         "",
		"a.wasm___jb_tmp___":              "", // JetBrains
		"a.wasm___jb_old___":              "",
		"a___jb_tmp___.wasm":              "",
		".a.wasm.AbCdEf":                  "", // rsync
		".~tmp~":                          "",
		"a.wasm.kate-swp":                 "",
		"a.wasm.filepart":                 "", // WinSCP
		"a.wasm.crdownload":               "",
		"a.wasm.lock":                     "",
		"a.yaml":                          "",
	} {
		name, ok := PluginName(file)
		if name != want || ok != (want != "") {
			t.Errorf("PluginName(%q) is %q, %v, want %q", file, name, ok, want)
		}
	}
}

// TestNameInASnapshotIsPrintable covers names that would end the process as the
// value of a metric's label, or steer a terminal.
func TestNameInASnapshotIsPrintable(t *testing.T) {
	f := newFixture(t)
	f.write("\xff\n.wasm", "1")
	if got := f.settle(); len(got) != 1 || got[0].Name != "\uFFFD " || contentOf(got[0]) != "1" {
		t.Errorf("got %+v", got)
	}
}

func TestFilesWithOnePrintableNameHaveAFixedOrder(t *testing.T) {
	f := newFixture(t)
	f.write("a\x01.wasm", "1")
	f.write("a\x02.wasm", "2")
	before := f.settle()
	for range 20 {
		f.expectSame(f.scan(), before)
	}
}

func TestPolicyWithoutAPluginIsLoggedOnce(t *testing.T) {
	f := newFixture(t)
	f.write("greetings.yaml", "dryRun: true")
	f.write(".hidden.yaml", "")
	f.write("greeting.wasm", "code")
	f.write("greeting.yaml", "dryRun: true")
	f.settle()
	f.settle()
	f.logs.ExpectNext(t, hclog.Info, "path", f.path("greetings.yaml"))
	f.logs.ExpectNone(t)
	f.write("greetings.wasm", "code")
	f.settle()
	f.remove("greetings.wasm")
	f.settle()
	f.logs.ExpectNext(t, hclog.Info, "path", f.path("greetings.yaml"))
}

func TestFileWithTheWrongExtensionIsLoggedOnce(t *testing.T) {
	f := newFixture(t)
	f.write("greeting.wasm", "code")
	for _, ignored := range []string{"compose.yml", "notes.txt", ".x.WASM", "x.tmp.WASM", "wasm"} {
		f.write(ignored, "")
	}
	f.settle()
	f.logs.ExpectNone(t)
	for _, file := range []string{"greeting.yml", "greeting.YAML", "other.WASM"} {
		f.write(file, "")
		f.settle()
		f.settle()
		f.logs.ExpectNext(t, hclog.Warn, "path", f.path(file))
	}
}
