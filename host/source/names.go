package source

import (
	"strconv"
	"strings"
)

const (
	extension       = ".wasm"
	policyExtension = ".yaml"
)

// pluginName returns the plugin's name if file is one. Hidden files are none:
// that is how ConfigMap volumes name their data, and rsync and some editors
// their temporary files. Others name theirs by a mark at one end.
func pluginName(file string) (string, bool) {
	name, ok := strings.CutSuffix(file, extension)
	if !ok || name == "" || strings.ContainsAny(name[:1], ".#~") {
		return "", false
	}
	for _, mark := range []string{".tmp", ".temp", ".part", "___jb_tmp___", "___jb_old___"} {
		if strings.HasSuffix(name, mark) {
			return "", false
		}
	}
	return name, true
}

// printable is a name for logs and metrics, which take no arbitrary bytes. It
// is the name itself if that is a plugin's; whoever loads plugins refuses the
// others by name.
func printable(name string) string {
	if quoted := strconv.QuoteToASCII(name); quoted != `"`+name+`"` {
		return quoted
	}
	return name
}
