package cache

import (
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/runtime"
)

// framer splits a watch stream into its events: JSON objects one after the
// other. Only braces and strings are looked at here; the decoder behind it
// checks the syntax.
type framer struct{}

var _ runtime.Framer = framer{}

// NewFrameReader implements runtime.Framer.
func (framer) NewFrameReader(r io.ReadCloser) io.ReadCloser {
	return &frameReader{source: r, limit: maxFrame}
}

// NewFrameWriter implements runtime.Framer.
func (framer) NewFrameWriter(w io.Writer) io.Writer { return w }

// frameReader returns one frame per Read, in pieces with io.ErrShortBuffer
// where the caller's buffer is too small, as streaming.NewDecoder expects.
type frameReader struct {
	source io.ReadCloser
	limit  int    // of a frame, in bytes
	buf    []byte // read from source; buf[:start] was returned
	start  int
	rest   []byte // of the frame that is being returned; aliases buf
}

const (
	readSize = 16 << 10
	maxFrame = 32 << 20 // far above what etcd stores
)

// Read implements io.Reader.
func (f *frameReader) Read(p []byte) (int, error) {
	if len(f.rest) == 0 {
		if err := f.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, f.rest)
	if f.rest = f.rest[n:]; len(f.rest) > 0 {
		return n, io.ErrShortBuffer
	}
	return n, nil
}

// Close implements io.Closer.
func (f *frameReader) Close() error { return f.source.Close() }

// next reads until rest is a whole frame.
func (f *frameReader) next() error {
	var s frameScanner
	for at := f.start; ; {
		end, err := s.scan(f.buf[at:])
		if err != nil {
			return err
		}
		if end > 0 {
			f.rest = f.buf[f.start : at+end]
			f.start = at + end
			return nil
		}
		if s.depth == 0 { // nothing but white space
			f.start = len(f.buf)
		}
		f.compact()
		at = len(f.buf)
		if at > f.limit {
			return fmt.Errorf("read watch stream: an event is longer than %d bytes", f.limit)
		}
		if err := f.fill(s.depth > 0); err != nil {
			return err
		}
	}
}

// compact moves what was not returned to the front. The buffer of a large
// event is given back.
func (f *frameReader) compact() {
	if f.start > 0 {
		f.buf = f.buf[:copy(f.buf, f.buf[f.start:])]
		f.start = 0
	}
	if len(f.buf) == 0 && cap(f.buf) > 16*readSize {
		f.buf = nil
	}
}

// fill reads once. The end of the source inside of a frame is unexpected.
func (f *frameReader) fill(inside bool) error {
	if cap(f.buf)-len(f.buf) < readSize {
		grown := make([]byte, len(f.buf), 2*cap(f.buf)+readSize)
		copy(grown, f.buf)
		f.buf = grown
	}
	n, err := f.source.Read(f.buf[len(f.buf):cap(f.buf)])
	f.buf = f.buf[:len(f.buf)+n]
	switch {
	case n > 0:
		return nil // an error comes again with the next read
	case err == io.EOF && inside:
		return io.ErrUnexpectedEOF
	}
	return err
}

// frameScanner finds the closing brace of a JSON object that comes in pieces.
type frameScanner struct {
	depth    int
	inString bool
	escaped  bool
}

// scan returns the offset behind the object's end, 0 if piece does not have it.
func (s *frameScanner) scan(piece []byte) (int, error) {
	for i, c := range piece {
		switch {
		case s.escaped:
			s.escaped = false
		case s.inString:
			s.inString = c != '"'
			s.escaped = c == '\\'
		case c == '"' && s.depth > 0:
			s.inString = true
		case c == '{':
			s.depth++
		case c == '}' && s.depth > 0:
			if s.depth--; s.depth == 0 {
				return i + 1, nil
			}
		case s.depth == 0 && c > ' ':
			return 0, fmt.Errorf("read watch stream: expected an event, found %q", c)
		}
	}
	return 0, nil
}
