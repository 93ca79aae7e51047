package source

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// MaxFile is the largest module that is read, in bytes, unless [Config.MaxFile] is set.
const MaxFile = 16 << 20

// fileKind is what a file is meant to be.
type fileKind struct {
	limit int64  // of its size, in bytes
	size  string // the limit, as people read it
	hint  string // how to make the file smaller
}

var policyFile = fileKind{limit: 128 << 10, size: "128 KiB", hint: "shorten its config"}

// moduleFile is the kind of a module.
func (d *Directory) moduleFile() fileKind {
	return fileKind{
		limit: d.MaxFile, size: fmt.Sprintf("%d MiB", d.MaxFile>>20),
		hint: "build it with TinyGo, leave out the debug information, or raise limits.moduleMiB in the file of --config if you trust it",
	}
}

// fileStat is what stat(2) returns for a path. While it stays the same so does
// the content, except for changes that come closer together than the file
// system's timestamps can tell, and except for a process that writes through a
// memory mapping.
type fileStat struct {
	info    os.FileInfo // nil unless the path leads to a regular file
	problem problem     // why the path cannot be read as a file; "" if nothing is there
}

func (s fileStat) absent() bool { return s.info == nil && s.problem == "" }

func (s fileStat) equal(other fileStat) bool {
	return s.problem == other.problem && sameInfo(s.info, other.info)
}

// sameInfo reports whether two stats are of one unchanged file or directory.
// The time of the last status change is compared, too: it differs when a tool
// has written a file and restored its old modification time.
func sameInfo(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.Mode() == b.Mode() &&
		a.ModTime().Equal(b.ModTime()) && statusChange(a) == statusChange(b)
}

// problem is what is wrong with a path, without the path. It is compared, so
// that a problem that persists counts as a stable state of the file.
type problem string

func (p problem) Error() string { return string(p) }

const (
	problemDangling  problem = "is a symbolic link to a file that is not there: put the file there, or remove the link"
	problemDirectory problem = "is a directory: put a file in its place, or rename it"
	problemIrregular problem = "is not a regular file: put one in its place, or remove it"
	problemLoop      problem = "is a symbolic link that leads to itself: point it to a file, or remove it"
	problemOutside   problem = "is a symbolic link that leads out of the plugin directory, or has an absolute path: put the file itself there"
)

// statFile returns the stat of a file in its directory.
func statFile(path string) fileStat {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return fileStat{problem: problemOf(err)}
	}
	defer root.Close()
	return statIn(root, filepath.Base(path))
}

// statIn follows symbolic links, which ConfigMap volumes consist of, as long as
// they do not lead out of the directory: what they lead to would be read with
// the rights of the host, and messages show some of it.
func statIn(root *os.Root, name string) fileStat {
	info, err := root.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && isLink(root, name):
		return fileStat{problem: problemDangling}
	case errors.Is(err, fs.ErrNotExist):
		return fileStat{}
	case err != nil:
		return fileStat{problem: problemOf(err)}
	}
	return newFileStat(info)
}

func newFileStat(info os.FileInfo) fileStat {
	switch {
	case info.IsDir():
		return fileStat{problem: problemDirectory}
	case !info.Mode().IsRegular():
		return fileStat{problem: problemIrregular}
	}
	return fileStat{info: info}
}

func isLink(root *os.Root, name string) bool {
	info, err := root.Lstat(name)
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

// problemOf leaves out the path, which the caller adds.
func problemOf(err error) problem {
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathError.Err
	}
	switch {
	case err.Error() == "path escapes from parent": // package os exports no value
		return problemOutside
	case errors.Is(err, fs.ErrPermission):
		return problem(err.Error() + ": let the user that the host runs as read it")
	case errors.Is(err, syscall.ELOOP):
		return problemLoop
	}
	return problem(err.Error())
}

// errChanged is returned for a file that is not, or not any more, the one that
// the caller has seen. The next scan finds out what it is now.
var errChanged = errors.New("has changed since the directory was scanned, which is repeated")

// openFile opens a file in its directory, to which symbolic links must lead. It
// does not block: neither for the writer of a named pipe that has replaced the
// file, nor for the holder of a lease on it.
func openFile(path string) (*os.File, error) {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.OpenFile(filepath.Base(path), os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// read reads the file of which seen is the stat into buffer. It returns
// [errChanged] if the file is another one when it is opened, or has changed
// when it was read.
func (k fileKind) read(open func(string) (*os.File, error), path string, seen fileStat, buffer *bytes.Buffer) ([]byte, error) {
	after, err := k.readAny(open, path, seen, buffer)
	if !after.absent() && !after.equal(seen) {
		err = errChanged
	}
	if err != nil {
		return nil, err
	}
	return buffer.Bytes(), nil
}

// readAny is [fileKind.read] for a caller that can tell by the content whether it
// is the right one. It returns the stat after the file was read.
func (k fileKind) readAny(open func(string) (*os.File, error), path string, seen fileStat, buffer *bytes.Buffer) (after fileStat, err error) {
	tooLarge := problem("is larger than " + k.size + ": " + k.hint)
	switch {
	case seen.absent():
		return after, errChanged
	case seen.problem != "":
		return after, seen.problem
	case seen.info.Size() > k.limit:
		return after, tooLarge
	}
	file, err := open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.EAGAIN): // EAGAIN: a lease
		return after, errChanged
	case err != nil:
		return after, problemOf(err)
	}
	defer file.Close()
	if opened, err := file.Stat(); err != nil || !opened.Mode().IsRegular() {
		return after, errChanged // the read of a named pipe would wait for its writer
	}
	buffer.Reset()
	buffer.Grow(int(seen.info.Size()) + bytes.MinRead) // what ReadFrom needs to read it without growing
	_, err = buffer.ReadFrom(io.LimitReader(file, k.limit+1))
	info, statErr := file.Stat()
	switch {
	case statErr != nil:
		return after, errChanged
	case err != nil:
		err = problemOf(err)
	case int64(buffer.Len()) > k.limit: // some file systems report another size
		err = tooLarge
	}
	return newFileStat(info), err
}
