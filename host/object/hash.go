package object

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Hash stands for texts where those of very many objects are remembered: it has no
// pointer, and keeps no text of an object or of a result in memory. It is a part of
// SHA-256, so that nobody can make two texts that have the same.
type Hash [16]byte

// HashOf returns the hash of a list of texts without zero bytes.
func HashOf(texts ...string) Hash {
	sum := sha256.Sum256([]byte(strings.Join(texts, "\x00")))
	return Hash(sum[:len(Hash{})])
}

func (h Hash) String() string { return hex.EncodeToString(h[:]) }
