package source

import (
	"path/filepath"
	"strings"
)

// findLone notes the policies that have no module beside them.
func (d *Directory) findLone(files map[string]bool) {
	lone := map[string]bool{}
	for file := range files {
		name, ok := strings.CutSuffix(file, policyExtension)
		if !ok || files[name+extension] {
			continue
		}
		if _, ok := pluginName(name + extension); ok {
			lone[file] = d.lone[file]
		}
	}
	d.lone = lone
}

// tellLone tells of each once: whoever wrote it may have meant a plugin of
// another name, which runs without it.
func (d *Directory) tellLone() {
	for file, told := range d.lone {
		if !told {
			d.lone[file] = true
			d.Logger.Info("a policy has no plugin beside it: it holds for the plugin of its own name only", "path", filepath.Join(d.Path, file))
		}
	}
}
