package source

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	extension       = ".wasm"
	policyExtension = ".yaml"
	// MaxFile is the largest module that is read, in bytes.
	MaxFile = 16 << 20
	// MaxPolicy is the largest policy file that is read, in bytes.
	MaxPolicy = 1 << 20
)

// seen is what a file looked like when it was read last: unchanged stats mean
// that it need not be read again.
type seen struct {
	size    int64
	modTime time.Time
	inode   uint64
	plugin  Plugin
}

// Scan reads the directory. Files that look as they did at the last scan are
// not read again. It is not safe for concurrent use.
//
// A directory that goes or is replaced meanwhile is read again: its files
// would all seem to be gone, and what runs from them would be stopped.
func (d *Directory) Scan() (Snapshot, error) {
	for {
		before, err := os.Stat(d.path)
		if err != nil {
			return nil, fmt.Errorf("read plugin directory: %w", err)
		}
		snapshot, files, err := d.scan()
		if after, gone := os.Stat(d.path); gone != nil || !os.SameFile(before, after) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read plugin directory: %w", err)
		}
		d.files = files
		return snapshot, nil
	}
}

func (d *Directory) scan() (snapshot Snapshot, files map[string]seen, err error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, nil, err
	}
	files = make(map[string]seen, len(d.files))
	for _, entry := range entries {
		name, ok := pluginName(entry.Name())
		if !ok {
			continue
		}
		path := filepath.Join(d.path, entry.Name())
		file, ok := d.look(name, path)
		if !ok {
			continue // gone since the directory was read
		}
		files[path] = file
		snapshot = append(snapshot, d.withPolicy(file.plugin))
	}
	slices.SortFunc(snapshot, func(a, b Plugin) int { return strings.Compare(a.Name, b.Name) })
	return snapshot, files, nil
}

// pluginName returns the plugin's name if file is one. Hidden files are none:
// that is how editors name their temporary files and ConfigMap volumes their
// data.
func pluginName(file string) (string, bool) {
	name, ok := strings.CutSuffix(file, extension)
	return name, ok && name != "" && !strings.HasPrefix(name, ".")
}

// look returns what path holds, from memory if it looks unchanged.
func (d *Directory) look(name, path string) (file seen, ok bool) {
	info, err := os.Stat(path) // follows links: ConfigMap volumes are made of them
	if os.IsNotExist(err) && !isLink(path) {
		return seen{}, false
	}
	if err != nil || !info.Mode().IsRegular() {
		return seen{plugin: load(name, path)}, true // says what is wrong
	}
	file = seen{size: info.Size(), modTime: info.ModTime(), inode: inode(info)}
	last, known := d.files[path]
	if known && last.plugin.Err == nil && last.size == file.size && last.modTime.Equal(file.modTime) && last.inode == file.inode {
		return last, true
	}
	file.plugin = load(name, path)
	return file, true
}

// What can be wrong with a file, for people.
var (
	errDangling  = errors.New("is a symbolic link to a file that is not there: put the file there, or remove the link")
	errDirectory = errors.New("is a directory: put a file in its place, or give it another name")
	errIrregular = errors.New("is no regular file: put one in its place, or remove it")
)

func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&os.ModeSymlink != 0
}

// withPolicy adds the policy beside a module. Policies are small: they are
// read at every scan. A policy that cannot be read is an error of the plugin:
// without it the plugin might be allowed more, or less, than was meant.
func (d *Directory) withPolicy(p Plugin) Plugin {
	if p.Err != nil {
		return p
	}
	path := filepath.Join(d.path, p.Name+policyExtension)
	policy, err := readFile(path, MaxPolicy, "shorten its config")
	switch {
	case err == nil:
		p.Policy = policy
	case os.IsNotExist(err): // there is none
	default:
		p.Err = fmt.Errorf("read policy %s: %w", path, err)
	}
	return p
}

func load(name, path string) Plugin {
	wasm, err := readModule(path)
	if err != nil {
		return unreadable(name, path, err)
	}
	sum := digest(wasm)
	return Plugin{Name: name, Path: path, Digest: sum, Read: reader(path, sum)}
}

func readModule(path string) ([]byte, error) {
	return readFile(path, MaxFile, "build it with TinyGo, or leave out the debug information")
}

// readFile reads a file of up to limit bytes; smaller says how to keep to it.
func readFile(path string, limit int, smaller string) ([]byte, error) {
	info, err := os.Stat(path) // before it is opened: a named pipe would wait for a writer
	switch {
	case os.IsNotExist(err) && isLink(path):
		return nil, errDangling
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, errDirectory
	case !info.Mode().IsRegular():
		return nil, errIrregular
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err != nil {
		return nil, err
	}
	if len(data) > limit {
		return nil, fmt.Errorf("is larger than %d MiB: %s", limit>>20, smaller)
	}
	return data, nil
}

func unreadable(name, path string, err error) Plugin {
	return Plugin{Name: name, Path: path, Err: fmt.Errorf("read plugin %s: %w", path, err)}
}
