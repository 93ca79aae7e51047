package cache

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/runtime"
)

// framer splits a watch stream into its events, which are JSON objects one
// after the other. It only looks at braces and strings: the decoder of the
// events checks their syntax.
//
// apimachinery's framer of JSON (util/framer) is not used, because it parses
// every event once more. It takes 80 % longer for an event of 2.3 KB, and it
// refuses an object that is as deep as the API server allows: one such object
// would end every watch of its kind. RATIONALE.md has the figures.
type framer struct{}

var _ runtime.Framer = framer{}

// NewFrameReader implements runtime.Framer.
func (framer) NewFrameReader(r io.ReadCloser) io.ReadCloser {
	return &frameReader{Closer: r, source: bufio.NewReaderSize(r, 16<<10)}
}

// NewFrameWriter implements runtime.Framer.
func (framer) NewFrameWriter(w io.Writer) io.Writer { return w }

// frameReader returns one frame per Read. A frame that does not fit is
// returned in pieces with io.ErrShortBuffer, as streaming.NewDecoder expects,
// which also bounds the size of a frame.
type frameReader struct {
	io.Closer
	source *bufio.Reader

	// Where the reader is in the current frame; zero between two frames.
	depth    int // of open braces
	inString bool
	escaped  bool // the last character was a backslash in a string
}

// Read implements io.Reader.
func (f *frameReader) Read(p []byte) (n int, err error) {
	if err := f.skipSpace(); err != nil {
		return 0, err
	}
	for n < len(p) {
		if _, err := f.source.Peek(1); errors.Is(err, io.EOF) {
			return n, io.ErrUnexpectedEOF
		} else if err != nil {
			return n, err
		}
		piece, _ := f.source.Peek(min(f.source.Buffered(), len(p)-n))
		end, complete := f.scan(piece)
		n += copy(p[n:], piece[:end])
		_, _ = f.source.Discard(end) // of what is buffered
		if complete {
			return n, nil
		}
	}
	return n, io.ErrShortBuffer
}

// skipSpace reads up to the next frame, if none is being read.
func (f *frameReader) skipSpace() error {
	for f.depth == 0 {
		switch c, err := f.source.ReadByte(); {
		case err != nil:
			return err
		case c == '{':
			return f.source.UnreadByte()
		case c > ' ':
			return fmt.Errorf("read watch stream: expected an event, found %q", c)
		}
	}
	return nil
}

// scan returns the length of piece up to the end of the frame, and whether the
// frame ends there.
func (f *frameReader) scan(piece []byte) (end int, complete bool) {
	for i, c := range piece {
		switch {
		case f.escaped:
			f.escaped = false
		case f.inString:
			f.inString = c != '"'
			f.escaped = c == '\\'
		case c == '"':
			f.inString = true
		case c == '{':
			f.depth++
		case c == '}':
			if f.depth--; f.depth == 0 {
				return i + 1, true
			}
		}
	}
	return len(piece), false
}
