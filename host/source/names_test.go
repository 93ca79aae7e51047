package source

import "testing"

func TestWhichFilesArePlugins(t *testing.T) {
	for file, want := range map[string]string{
		"a.wasm":           "a",
		"my-plugin.wasm":   "my-plugin",
		"tmp.wasm":         "tmp",
		"Not_A_Label.wasm": "Not_A_Label", // is refused by name when it is loaded
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
		"4913":                            "", // vim tries whether it may write
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
		name, ok := pluginName(file)
		if name != want || ok != (want != "") {
			t.Errorf("%s: plugin %q, %v", file, name, ok)
		}
	}
}

// TestNamesAreSafeToPrint: a metric with a label that is no UTF-8 is a panic.
func TestNamesAreSafeToPrint(t *testing.T) {
	for name, want := range map[string]string{
		"a-b":      "a-b",
		"Mine":     "Mine",
		"\xff":     `"\xff"`,
		`\xff`:     `"\\xff"`,
		`"\xff"`:   `"\"\\xff\""`,
		"a\nb":     `"a\nb"`,
		"schön":    `"sch\u00f6n"`,
		"a\x1b[2J": `"a\x1b[2J"`,
	} {
		if got := printable(name); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
	s := newScene(t)
	s.write("\xff\n.wasm", "1")
	if got := s.settle(); len(got) != 1 || got[0].Name != `"\xff\n"` || contentOf(got[0]) != "1" {
		t.Errorf("got %+v", got)
	}
}
