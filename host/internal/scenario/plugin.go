package scenario

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/thole-dev/thole/internal/wasmbuild"
)

// plugin installs a plugin in the directory of the host, changes its policy, or
// removes it.
func plugin(s *script, args []string) error {
	switch {
	case len(args) == 2 && args[0] == "-remove":
		return s.removePlugin(args[1])
	case len(args) == 3 && args[0] == "-policy":
		return s.replacePolicy(args[1], args[2])
	}
	compiler := wasmbuild.TinyGo
	if len(args) > 2 && args[0] == "-compiler" {
		compiler, args = wasmbuild.Toolchain(args[1]), args[2:]
	}
	switch {
	case !slices.Contains(wasmbuild.Toolchains, compiler):
		return wrongUse("the compiler %q is none of %q", compiler, wasmbuild.Toolchains)
	case len(args) == 1:
		return s.installPlugin(args[0], "", compiler)
	case len(args) == 3 && args[1] == "as":
		return s.installPlugin(args[0], args[2], compiler)
	}
	return wrongUse("%q", args)
}

func (s *script) removePlugin(name string) error {
	if !slices.Contains(s.installed, name) {
		return fmt.Errorf("plugin %q is not installed", name)
	}
	s.installed = slices.DeleteFunc(s.installed, func(n string) bool { return n == name })
	return errors.Join(os.Remove(s.file(name, ".wasm")), os.RemoveAll(s.file(name, ".yaml")))
}

// replacePolicy gives an installed plugin the policy of a file.
func (s *script) replacePolicy(name, file string) error {
	if !slices.Contains(s.installed, name) {
		return fmt.Errorf("plugin %q is not installed", name)
	}
	text, err := os.ReadFile(s.path(file))
	if err != nil {
		return err
	}
	return replaceFile(s.file(name, ".yaml"), text)
}

func (s *script) file(name, extension string) string { return filepath.Join(s.plugins, name+extension) }

// installPlugin installs a plugin under a name; "" is the name of its file. What it
// needs comes first, so that the host never sees the module without it.
func (s *script) installPlugin(argument, name string, compiler wasmbuild.Toolchain) error {
	source, err := s.findPlugin(argument)
	if err != nil {
		return err
	}
	if name == "" {
		name = strings.TrimSuffix(filepath.Base(source), ".wasm")
	}
	policy, crd := strings.TrimSuffix(source, ".wasm")+".yaml", ""
	if !strings.HasSuffix(source, ".wasm") {
		policy, crd = filepath.Join(source, "policy.yaml"), filepath.Join(source, "crd.yaml")
	}
	if exists(crd) {
		if err := apply(s, []string{crd}); err != nil {
			return err
		}
	}
	if text, err := os.ReadFile(policy); err == nil {
		if err := replaceFile(s.file(name, ".yaml"), text); err != nil {
			return err
		}
	}
	wasm, err := s.module(source, compiler)
	if err != nil {
		return err
	}
	s.installed = append(slices.DeleteFunc(s.installed, func(n string) bool { return n == name }), name)
	return replaceFile(s.file(name, ".wasm"), wasm)
}

// findPlugin returns the path of a module, or the directory of a main package.
func (s *script) findPlugin(argument string) (string, error) {
	if strings.ContainsRune(argument, '/') || strings.HasSuffix(argument, ".wasm") {
		return s.path(argument), nil
	}
	for _, dir := range s.Plugins {
		path := filepath.Join(dir, argument)
		if exists(path + ".wasm") {
			return path + ".wasm", nil
		}
		if exists(filepath.Join(path, "main.go")) {
			return path, nil
		}
	}
	return "", fmt.Errorf("plugin %q: neither %[1]s.wasm nor %[1]s/main.go is in %s", argument, strings.Join(s.Plugins, ", "))
}

// module returns the module of a path that findPlugin has returned. A main package is
// compiled.
func (s *script) module(source string, compiler wasmbuild.Toolchain) ([]byte, error) {
	if strings.HasSuffix(source, ".wasm") {
		return os.ReadFile(source)
	}
	if !exists(filepath.Join(source, "main.go")) {
		return nil, fmt.Errorf("plugin %s: it has no main.go", source)
	}
	return wasmbuild.Build(s.tb, compiler, source), nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// replaceFile writes a file under a temporary name and renames it, so that the host
// never sees a part of it.
func replaceFile(path string, content []byte) error {
	partial := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".partial")
	if err := os.WriteFile(partial, content, 0o600); err != nil {
		return err
	}
	return os.Rename(partial, path)
}
