package source

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
)

// Plugin is one plugin as the source has it now.
type Plugin struct {
	Name   string // the file's base name without its extension
	Path   string // for messages
	Digest string // sha256 of the module in hex; "" if it could not be read
	// Read reads the module, which is not kept in memory. It fails if the file
	// has no longer this digest: then another snapshot is about to come.
	Read   func() ([]byte, error)
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

// errChanged is for a file that is read later than it was scanned.
var errChanged = errors.New("has changed since the directory was scanned: it is scanned again")

// reader answers a function for [Plugin.Read].
func reader(path, want string) func() ([]byte, error) {
	return func() ([]byte, error) {
		wasm, err := module.readNow(path)
		if err != nil {
			return nil, fmt.Errorf("read plugin %s: %w", path, err)
		}
		if digest(wasm) != want {
			return nil, fmt.Errorf("plugin %s %w", path, errChanged)
		}
		return wasm, nil
	}
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
