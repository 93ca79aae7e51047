package objects

import (
	"bytes"
	"hash/maphash"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// This file packs objects: it keeps their text and not their metadata, which takes
// as much as a text of 1 KiB. The text is compressed by zstd with a dictionary
// that all objects of a kind share.

const (
	// A dictionary has the first bytes of some objects of the kind.
	dictionaryParts = 8
	partBytes       = 4 << 10
	// maxSamples is of how many objects a dictionary is made and judged.
	maxSamples = 4 * dictionaryParts
	// window is how far back in a text the compression looks. It decides how much
	// memory the compression takes.
	window = 128 << 10
)

// pays reports whether to keep a text compressed saves enough for the time to read it. Base64
// has three quarters of its size, random ASCII has more than four fifths.
func pays(size, compressed int) bool { return compressed <= size-size/5 }

// codec compresses the texts of a kind. It is safe for concurrent use.
type codec struct {
	kind       abi.Kind
	dictionary []byte        // nil if to compress does not pay
	decoder    *zstd.Decoder // nil without a dictionary
}

// newCodec makes a codec for objects like those of the texts.
func newCodec(kind abi.Kind, texts [][]byte) *codec {
	c := &codec{kind: kind}
	var dictionary []byte
	size, compressed := 0, 0
	for i, text := range texts {
		if i%(maxSamples/dictionaryParts) == 0 {
			dictionary = append(dictionary, text[:min(len(text), partBytes)]...)
		}
	}
	c.use(dictionary)
	for i, text := range texts {
		if i%(maxSamples/dictionaryParts) != 0 { // the others are part of it
			size, compressed = size+len(text), compressed+len(c.compress(text))
		}
	}
	if size == 0 || !pays(size, compressed) {
		c.dictionary, c.decoder = nil, nil
	}
	return c
}

func (c *codec) use(dictionary []byte) {
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderDictRaw(dictionaryID, dictionary),
		zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecodeAllCapLimit(true))
	if err == nil {
		c.dictionary, c.decoder = dictionary, decoder
	}
}

// dictionaryID is that of all dictionaries: a text is only read by its own codec.
const dictionaryID = 1

// encoder is the only one, because it takes 0.6 MiB.
var encoder struct {
	mu sync.Mutex
	*zstd.Encoder
	of *codec // whose dictionary it has
}

// compress returns the text compressed, or as it is if that does not pay.
func (c *codec) compress(text []byte) []byte {
	if c.dictionary == nil {
		return text
	}
	encoder.mu.Lock()
	defer encoder.mu.Unlock()
	if encoder.of != c && !c.setEncoder() {
		return text
	}
	compressed := encoder.EncodeAll(text, make([]byte, 0, len(text)))
	isSame := false
	c.decompress(compressed, len(text), func(again []byte) { isSame = bytes.Equal(again, text) })
	if !isSame || !pays(len(text), len(compressed)) {
		return text
	}
	return bytes.Clone(compressed) // has no unused capacity
}

func (c *codec) setEncoder() (ok bool) {
	dictionary := zstd.WithEncoderDictRaw(dictionaryID, c.dictionary)
	var err error
	if encoder.Encoder == nil {
		encoder.Encoder, err = zstd.NewWriter(nil, dictionary, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(window),
			zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false), zstd.WithLowerEncoderMem(true), zstd.WithSingleSegment(true))
	} else {
		err = encoder.ResetWithOptions(nil, dictionary)
	}
	encoder.of = c
	return err == nil
}

var buffers = sync.Pool{New: func() any { return &[]byte{} }}

// decompress calls use with a text of a known size, which use must not keep, and with nil
// if data cannot be read.
func (c *codec) decompress(data []byte, size int, use func(text []byte)) {
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	*buffer = slices.Grow((*buffer)[:0], size)
	text, err := c.decoder.DecodeAll(data, (*buffer)[:0:size])
	if err != nil {
		text = nil
	}
	use(text)
}

// packed is an object without its parsed metadata.
type packed struct {
	codec        *codec
	uid, version string
	data         []byte // the text, compressed if it is shorter than size
	size         int    // of the text
	hash         uint64 // of the text
	applied      []metav1.ManagedFieldsEntry
	metadataOnly bool
}

func (c *codec) pack(o *object.Object) *packed {
	return &packed{
		codec: c, uid: string(o.UID), version: o.ResourceVersion,
		data: c.compress(o.Raw), size: len(o.Raw), hash: hashOf(o.Raw), applied: o.ManagedFields, metadataOnly: o.MetadataOnly,
	}
}

var hashSeed = maphash.MakeSeed()

func hashOf(text []byte) uint64 { return maphash.Bytes(hashSeed, text) }

// object parses the object again. There is no error, because the text was parsed
// before, and compress has read again what it returned.
func (p *packed) object() (o *object.Object) {
	parse := func(text []byte) {
		var err error
		if o, err = object.Parse(text, p.codec.kind); err != nil {
			panic(err)
		}
		// The text does not show these, and has the resourceVersion also if that counts as none.
		o.ManagedFields, o.MetadataOnly, o.ResourceVersion = p.applied, p.metadataOnly, p.version
	}
	if len(p.data) == p.size {
		parse(p.data)
	} else {
		p.codec.decompress(p.data, p.size, parse)
	}
	return o
}
