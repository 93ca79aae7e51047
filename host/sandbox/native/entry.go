package native

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// An entry is one compiled module in a file:
//
//	code      as the engine wrote it; the engine stops reading at its end
//	skeleton  the module without its function bodies
//	info      JSON
//	trailer   length of the info, magic, SHA-256 of everything before
//
// The file stays open as long as its module is in use, so that a cache can be
// deleted without a plugin losing its code.
type entry struct {
	file   *os.File
	info   entryInfo
	unlink func() // removes the link by which the engine finds it; nil if it was not linked
}

// entryInfo describes an entry, in the entry.
type entryInfo struct {
	Key      string          `json:"key"`
	Name     string          `json:"name"` // of the file that the engine looks for
	Code     int64           `json:"code"` // length in bytes
	Skeleton int64           `json:"skeleton"`
	Report   json.RawMessage `json:"report,omitempty"` // of [Prepare]
}

const (
	entryMagic   = "thole\x00\x00\x03" // changes with the format
	trailerBytes = 8 + len(entryMagic) + sha256.Size

	// maxCode bounds the native code of a module, in bytes: it is in the
	// host's memory, besides all that guests may have. What compilers write
	// becomes five times as large, which is 80 MiB for the largest file.
	maxCode = 128 << 20
	// maxSkeleton is more than a module that was rewritten has, and maxInfo
	// more than what there is besides a report.
	maxSkeleton = 64 << 20
	maxInfo     = 2 * MaxReport
	maxEntry    = maxCode + maxSkeleton + maxInfo
)

// errTooLarge is the error for a module that becomes too much native code.
var errTooLarge = fmt.Errorf("%w: more than %d MiB of native code: build it smaller", ErrTooExpensive, maxCode>>20)

// errDamaged is the error for an entry that is not as it was written.
var errDamaged = errors.New("damaged")

// saltOf returns the salt of the skeleton of a rewritten module.
func saltOf(rewritten []byte) []byte {
	sum := sha256.Sum256(rewritten)
	return sum[:]
}

// seal makes an entry of a file that holds native code.
func seal(path string, info entryInfo, skeleton []byte) (err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	sum := sha256.New()
	if info.Code, err = io.Copy(sum, file); err != nil {
		return err
	}
	info.Skeleton = int64(len(skeleton))
	text, err := json.Marshal(info)
	if err != nil {
		return err
	}
	rest := append(bytes.Clone(skeleton), text...)
	rest = binary.LittleEndian.AppendUint64(rest, uint64(len(text)))
	rest = append(rest, entryMagic...)
	sum.Write(rest)
	_, err = file.Write(sum.Sum(rest))
	return err
}

// openEntry opens a file that [seal] has made for a key, and verifies it.
func openEntry(path, key string) (*entry, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // not for the writer of a named pipe
	if err != nil {
		return nil, err
	}
	e := &entry{file: file}
	if e.info, err = e.verify(); err == nil && e.info.Key != key {
		err = fmt.Errorf("%w: it is the entry of the key %q", errDamaged, e.info.Key)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return e, nil
}

// verify reads the whole file, checks it, and returns its info. It holds no
// more than the info in memory.
func (e *entry) verify() (info entryInfo, err error) {
	stat, err := e.file.Stat()
	if err != nil {
		return info, err
	}
	size := stat.Size()
	switch {
	case !stat.Mode().IsRegular() || size < int64(trailerBytes):
		return info, errDamaged
	case size > maxEntry:
		return info, errTooLarge
	}
	trailer, err := e.read(size-int64(trailerBytes), int64(trailerBytes))
	if err != nil {
		return info, err
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(e.file, 0, size-sha256.Size)); err != nil {
		return info, err
	}
	if !bytes.Equal(sum.Sum(nil), trailer[8+len(entryMagic):]) || string(trailer[8:8+len(entryMagic)]) != entryMagic {
		return info, errDamaged
	}
	rest := size - int64(trailerBytes)
	length := binary.LittleEndian.Uint64(trailer)
	if length > uint64(min(rest, maxInfo)) {
		return info, errDamaged
	}
	text, err := e.read(rest-int64(length), int64(length))
	if err != nil {
		return info, err
	}
	if err := json.Unmarshal(text, &info); err != nil {
		return info, fmt.Errorf("%w: %w", errDamaged, err)
	}
	return info, info.check(rest - int64(length))
}

// check checks the lengths in an entry, whose parts before the info have that
// many bytes.
func (i entryInfo) check(length int64) error {
	switch {
	case i.Code < 0 || i.Skeleton < 0 || i.Skeleton > maxSkeleton || i.Code > length || i.Code+i.Skeleton != length,
		i.Name != filepath.Base(i.Name): // it becomes the name of a link
		return errDamaged
	case i.Code > maxCode:
		return errTooLarge
	}
	return nil
}

func (e *entry) skeleton() ([]byte, error) { return e.read(e.info.Code, e.info.Skeleton) }

func (e *entry) read(at, length int64) ([]byte, error) {
	out := make([]byte, length)
	if _, err := e.file.ReadAt(out, at); err != nil {
		return nil, err
	}
	return out, nil
}

func (e *entry) close() {
	if e.unlink != nil {
		e.unlink()
	}
	_ = e.file.Close()
}
