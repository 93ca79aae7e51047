package source

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"
	"time"
)

const (
	// MaxFile is the largest module that is read, in bytes.
	MaxFile = 16 << 20
	// maxPolicy is the largest policy file that is read, in bytes.
	maxPolicy = 1 << 20
)

// kind is what a file is meant to be.
type kind struct {
	limit   int    // bytes
	smaller string // how to keep to it
	kept    bool   // in memory; of others the digest is
}

var (
	module = kind{limit: MaxFile, smaller: "build it with TinyGo, or leave out the debug information"}
	policy = kind{limit: maxPolicy, smaller: "shorten its config", kept: true}
)

// errUnsettled is of a file that changes while it is looked at.
var errUnsettled = errors.New("is being changed: it is read again")

// errWritten is of a file that somebody has open for writing.
var errWritten = fmt.Errorf("is open for writing: %w", errUnsettled)

// readSettled reads the file if it is settled, and still looks as it was seen.
// still says whether it has looked so for long enough; that decides where the
// system does not know who writes. local is as in [claim].
func (f *file) readSettled(w *watcher, seen look, still func(local bool) bool) (data []byte, local bool, err error) {
	opened, err := openFile(f.path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, false, errUnsettled
	case errors.Is(err, syscall.EAGAIN): // another process's lease for writing
		return nil, false, errWritten
	case err != nil && still(false):
		return nil, false, faultOf(err)
	case err != nil:
		return nil, false, errUnsettled
	}
	defer opened.Close()
	c := w.system.claim(opened)
	if err = admit(c, still); err == nil {
		data, err = f.kind.readAll(opened, seen.size, w.buffer)
	}
	// It is the file that was seen, and has not changed while it was read.
	if !c.release() || !looks(opened, seen) {
		return nil, c.local, unsettled(err)
	}
	return data, c.local, err
}

// admit says whether a file may be read, c being the system's word on its
// writers.
func admit(c claim, still func(local bool) bool) error {
	switch {
	case c.answer == written:
		return errWritten
	case c.answer == unknown && !still(c.local):
		return errUnsettled
	}
	return nil
}

// unsettled is what is known of a file that has changed while it was read.
func unsettled(err error) error {
	if errors.Is(err, errUnsettled) {
		return err
	}
	return errUnsettled
}

func looks(f *os.File, like look) bool {
	info, err := f.Stat()
	return err == nil && lookOf(info) == like
}

// readAll reads a file of the given size up to the limit, into the buffer if
// that is large enough.
func (k kind) readAll(r io.Reader, size int64, buffer []byte) ([]byte, error) {
	if size > int64(k.limit) {
		return nil, k.tooLarge()
	}
	data := slices.Grow(buffer[:0], int(size)+1) // one more tells the end
	for {
		n, err := r.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		switch {
		case errors.Is(err, io.EOF):
			return data, nil
		case err != nil:
			return nil, faultOf(err)
		case len(data) > k.limit:
			return nil, k.tooLarge()
		}
		if len(data) == cap(data) {
			data = slices.Grow(data, 1)
		}
	}
}

func (k kind) tooLarge() fault {
	return fault(fmt.Sprintf("is larger than %d MiB: %s", k.limit>>20, k.smaller))
}

// readNow reads a file whatever is done to it: its reader knows what it must
// hold.
func (k kind) readNow(path string) ([]byte, error) {
	if l := lookAt(path); l.state == faulty {
		return nil, l.fault // a named pipe would wait for a writer
	}
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return k.readAll(f, info.Size(), nil)
}

// stampsLag is how far apart two changes must be for their stamps to differ:
// a tick of the kernel, or what the coarsest of other file systems store.
func stampsLag(local bool) time.Duration {
	if local {
		return 20 * time.Millisecond
	}
	return 2 * time.Second
}
