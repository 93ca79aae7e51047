package source

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
)

// Plugin is one plugin as the source has it now.
type Plugin struct {
	Name   string // the file's base name without its extension
	Path   string // for messages
	Digest string // sha256 of Wasm in hex; "" if it could not be read
	Wasm   []byte // the module; must not be changed
	Policy []byte // the administrator's policy for it, the file <name>.yaml; nil if there is none
	Err    error  // why it could not be read; says what to do
}

// Snapshot is every plugin of a source, ordered by name.
type Snapshot []Plugin

// same says whether two snapshots hold the same plugins with the same content.
func (s Snapshot) same(other Snapshot) bool {
	if len(s) != len(other) {
		return false
	}
	for i := range s {
		a, b := s[i], other[i]
		if a.Name != b.Name || a.Digest != b.Digest || !bytes.Equal(a.Policy, b.Policy) || errorText(a.Err) != errorText(b.Err) {
			return false
		}
	}
	return true
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
