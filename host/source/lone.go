package source

import (
	"path/filepath"
	"strings"
)

// findLone notes the policies that have no module beside them, and the files
// that would count under another extension.
func (d *Directory) findLone(files map[string]bool) {
	lone := map[string]bool{}
	for file := range files {
		if withoutModule(file, files) || misnamed(file, files) {
			lone[file] = d.lone[file]
		}
	}
	d.lone = lone
}

func withoutModule(file string, files map[string]bool) bool {
	name, ok := strings.CutSuffix(file, policyExtension)
	if ok {
		_, ok = pluginName(name + extension)
	}
	return ok && !files[name+extension]
}

// misnamed says whether a file was meant to be a module, or the policy of one
// that is there: a policy that is not read narrows nothing.
func misnamed(file string, files map[string]bool) bool {
	written := filepath.Ext(file)
	name := strings.TrimSuffix(file, written)
	if _, ok := pluginName(name + extension); !ok {
		return false
	}
	switch right := strings.ToLower(written); right {
	case extension:
		return written != right
	case policyExtension, ".yml":
		return written != policyExtension && files[name+extension]
	}
	return false
}

// tellLone tells of each once. Whoever wrote a policy may have meant a plugin
// of another name, which runs without it.
func (d *Directory) tellLone() {
	for file, told := range d.lone {
		if told {
			continue
		}
		d.lone[file] = true
		path := filepath.Join(d.Path, file)
		if strings.HasSuffix(file, policyExtension) {
			d.Logger.Info("a policy has no plugin beside it: it holds for the plugin of its own name only", "path", path)
		} else {
			d.Logger.Warn("a file is not looked at: plugins end in .wasm and their policies in .yaml: rename it", "path", path)
		}
	}
}
