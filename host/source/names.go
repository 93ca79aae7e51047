package source

import (
	"path/filepath"
	"strings"
)

const (
	moduleExtension = ".wasm"
	policyExtension = ".yaml"
)

// PluginName returns the name of the plugin whose module a file is. Hidden
// files and the temporary files of common tools are not modules: ConfigMap
// volumes, rsync and some editors use hidden files, others mark theirs at one
// end of the name. Any other name is a plugin's, even if it is not a DNS
// label: whoever loads the plugin refuses it by its name.
func PluginName(file string) (string, bool) {
	name, ok := strings.CutSuffix(file, moduleExtension)
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

// reportOrphans logs, once each, the policies without a module and the files
// that would count under another extension. The author of a policy may have
// meant a plugin of another name, which runs without it.
func (d *Directory) reportOrphans(files map[string]bool) {
	orphans := map[string]bool{}
	for file := range files {
		path := filepath.Join(d.Path, file)
		switch known := d.orphans[file]; {
		case orphanPolicy(file, files):
			if !known {
				d.Logger.Info("policy without a plugin: it applies to the plugin of the same name only", "path", path)
			}
		case wrongExtension(file, files):
			if !known {
				d.Logger.Warn("file is ignored because of its extension: rename modules to <name>.wasm and policies to <name>.yaml", "path", path)
			}
		default:
			continue
		}
		orphans[file] = true
	}
	d.orphans = orphans
}

func orphanPolicy(file string, files map[string]bool) bool {
	name, ok := strings.CutSuffix(file, policyExtension)
	if ok {
		_, ok = PluginName(name + moduleExtension)
	}
	return ok && !files[name+moduleExtension]
}

// wrongExtension reports whether a file was meant to be a module, or the
// policy of a module that is there: a policy that is not read restricts
// nothing.
func wrongExtension(file string, files map[string]bool) bool {
	written := filepath.Ext(file)
	name := strings.TrimSuffix(file, written)
	if _, ok := PluginName(name + moduleExtension); !ok {
		return false
	}
	switch right := strings.ToLower(written); right {
	case moduleExtension:
		return written != right
	case policyExtension, ".yml":
		return written != policyExtension && files[name+moduleExtension]
	}
	return false
}
