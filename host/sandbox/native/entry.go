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
)

// An entry is one compiled module in a file:
//
//	code      as the engine wrote it, and as it reads it: it stops at its end
//	skeleton  the module without its function bodies
//	facts     JSON
//	trailer   length of the facts, magic, SHA-256 of all before
//
// The file stays open as long as its module lives, so that a cache that is
// deleted loses nobody their code.
type entry struct {
	file   *os.File
	facts  facts
	unlink func() // from where the engine looks for it; nil: it was not linked
}

// facts are what an entry says of itself.
type facts struct {
	Name     string          `json:"name"` // of the file that the engine looks for
	Code     int64           `json:"code"` // bytes
	Skeleton int64           `json:"skeleton"`
	Note     json.RawMessage `json:"outline,omitempty"` // of who compiled it
}

const (
	entryMagic   = "thole\x00\x00\x01" // changes with the format
	trailerBytes = 8 + len(entryMagic) + sha256.Size
)

// errDamaged is for an entry that is not as it was written.
var errDamaged = errors.New("damaged")

// seal makes an entry of a file that holds native code.
func seal(file *os.File, f facts, skeleton []byte) error {
	sum := sha256.New()
	code, err := io.Copy(sum, io.NewSectionReader(file, 0, 1<<62))
	if err != nil {
		return err
	}
	f.Code, f.Skeleton = code, int64(len(skeleton))
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	rest := append(bytes.Clone(skeleton), text...)
	rest = binary.LittleEndian.AppendUint64(rest, uint64(len(text)))
	rest = append(rest, entryMagic...)
	sum.Write(rest)
	_, err = file.WriteAt(sum.Sum(rest), code)
	return err
}

func sealFile(path string, f facts, skeleton []byte) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(seal(file, f, skeleton), file.Close())
}

// openEntry opens a file that [seal] has made and verifies it.
func openEntry(path string) (*entry, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	e := &entry{file: file}
	if e.facts, err = e.verify(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return e, nil
}

// verify reads all of the file and answers its facts.
func (e *entry) verify() (f facts, err error) {
	info, err := e.file.Stat()
	if err != nil {
		return f, err
	}
	size := info.Size()
	if size < int64(trailerBytes) {
		return f, errDamaged
	}
	trailer, err := e.read(size-int64(trailerBytes), int64(trailerBytes))
	if err != nil {
		return f, err
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(e.file, 0, size-sha256.Size)); err != nil {
		return f, err
	}
	if !bytes.Equal(sum.Sum(nil), trailer[8+len(entryMagic):]) || string(trailer[8:8+len(entryMagic)]) != entryMagic {
		return f, errDamaged
	}
	length := int64(binary.LittleEndian.Uint64(trailer))
	text, err := e.read(size-int64(trailerBytes)-length, length)
	if err != nil {
		return f, err
	}
	if err := json.Unmarshal(text, &f); err != nil {
		return f, fmt.Errorf("%w: %w", errDamaged, err)
	}
	return f, nil
}

func (e *entry) skeleton() ([]byte, error) { return e.read(e.facts.Code, e.facts.Skeleton) }

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
