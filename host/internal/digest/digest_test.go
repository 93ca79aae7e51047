package digest

import (
	"bytes"
	"crypto/sha256"
	"testing"
)

func TestOfIsSHA256(t *testing.T) {
	for _, n := range []int{0, 1, atOnce - 1, atOnce, atOnce + 1, 3*atOnce + 7} {
		data := bytes.Repeat([]byte("thole"), n/5+1)[:n]
		if got, want := Of(data), sha256.Sum256(data); got != want {
			t.Errorf("of %d bytes: %x, want %x", n, got, want)
		}
	}
}
