package sandbox

import (
	"bytes"
	"sync"
)

// largeOutput is from where on an output is written into a buffer that is used
// again. Most outputs are a few KiB; those of a guest that writes until it is
// stopped would keep the garbage collector busy for everybody.
const largeOutput = 64 << 10

var outputBuffers sync.Pool // of *[]byte

// roomFor is the output so far, with room for n more bytes.
func (c *call) roomFor(n int) []byte {
	length := len(c.output)
	if n <= cap(c.output)-length || length+n <= largeOutput {
		return c.output
	}
	buffer, _ := outputBuffers.Get().(*[]byte)
	if buffer == nil || cap(*buffer) < c.limits.OutputBytes {
		made := make([]byte, 0, c.limits.OutputBytes)
		buffer = &made
	}
	c.buffer = buffer
	return append((*buffer)[:0], c.output...)
}

// takeOutput is the output of a call that ended with err, the caller's to
// keep. One of a call that failed is nothing that anybody may use.
func (c *call) takeOutput(err error) []byte {
	out := c.output
	if err != nil {
		out = nil
	} else if c.buffer != nil {
		out = bytes.Clone(c.output)
	}
	if c.buffer != nil {
		outputBuffers.Put(c.buffer)
	}
	c.output, c.buffer = nil, nil
	return out
}
