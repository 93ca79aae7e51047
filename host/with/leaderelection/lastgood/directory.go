package lastgood

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Directory has modules in files: PATH/PLUGIN/DIGEST.wasm.gz. Its methods may be called at the same
// time for different plugins, and by several processes.
type Directory struct {
	Path      string // made when it is needed
	MaxModule int64  // bytes; what takes more is none of the host's
}

const fileSuffix = ".wasm.gz"

func (d Directory) file(plugin, digest string) string {
	return filepath.Join(d.Path, plugin, digest+fileSuffix)
}

// Has reports whether there is a file for a module.
func (d Directory) Has(plugin, digest string) bool {
	_, err := os.Stat(d.file(plugin, digest))
	return err == nil
}

// Write writes a module, whole or not at all.
func (d Directory) Write(plugin, digest string, p Packed) error {
	path := d.file(plugin, digest)
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".*"+fileSuffix)
	if err != nil {
		return err
	}
	_, err = f.Write(p)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// Packed returns a module as it was written. The error is an [ErrNotKept] if there is none.
func (d Directory) Packed(plugin, digest string) (Packed, error) {
	path := d.file(plugin, digest)
	p, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s", ErrNotKept, path)
	}
	return p, err
}

// Read returns the module with that digest. The error is an [ErrNotKept] if there is none.
func (d Directory) Read(plugin, digest string) ([]byte, error) {
	p, err := d.Packed(plugin, digest)
	if err != nil {
		return nil, err
	}
	return p.module(digest, d.MaxModule)
}

// Retain removes the modules of a plugin but those with the digests.
func (d Directory) Retain(plugin string, digests ...string) error {
	files, err := os.ReadDir(filepath.Join(d.Path, plugin))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, f := range files {
		if digest := strings.TrimSuffix(f.Name(), fileSuffix); !slices.Contains(digests, digest) {
			err = errors.Join(err, os.Remove(filepath.Join(d.Path, plugin, f.Name())))
		}
	}
	return err
}

// Plugins returns the plugins that have modules here.
func (d Directory) Plugins() (plugins []string) {
	all, _ := os.ReadDir(d.Path) // it may not be there yet
	for _, e := range all {
		plugins = append(plugins, e.Name())
	}
	return plugins
}

// Remove removes all modules of a plugin.
func (d Directory) Remove(plugin string) error { return os.RemoveAll(filepath.Join(d.Path, plugin)) }
