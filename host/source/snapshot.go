package source

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/thole-dev/thole/host/internal/digest"
)

// Plugin is one plugin as it was read last.
type Plugin struct {
	// Name is the base name of the module without its extension, as a line of
	// printable text. It need not be a DNS label.
	Name   string
	Path   string // of the module, for messages
	Digest string // SHA-256 of the module in hex; "" if it could not be read
	Size   int64  // of the module, in bytes
	// Read reads the module, which is not kept in memory. It fails if the file
	// does not have this digest any more: another snapshot follows then.
	Read   func() ([]byte, error)
	Policy []byte // content of the file <name>.yaml; nil if there is none
	Err    error  // why the plugin could not be read, and what to do
	// PolicyUnknown is set if the policy could not be read. Without it Policy holds even if
	// the module could not be read.
	PolicyUnknown bool
}

// Snapshot is every plugin of a source, ordered by name.
type Snapshot []Plugin

// equal reports whether two snapshots hold the same plugins with the same
// content.
func (s Snapshot) equal(other Snapshot) bool {
	return slices.EqualFunc(s, other, func(a, b Plugin) bool {
		return a.Name == b.Name && a.Digest == b.Digest && bytes.Equal(a.Policy, b.Policy) &&
			a.PolicyUnknown == b.PolicyUnknown && errorText(a.Err) == errorText(b.Err)
	})
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// reader returns the function for [Plugin.Read].
func (d *Directory) reader(path, want string) func() ([]byte, error) {
	return func() ([]byte, error) {
		var wasm bytes.Buffer
		_, err := d.moduleFile().readAny(d.system.open, path, statFile(path), &wasm)
		if err == nil && digestOf(wasm.Bytes()) != want {
			err = errChanged
		}
		if err != nil {
			return nil, fmt.Errorf("read plugin %s: %w", path, err)
		}
		return wasm.Bytes(), nil
	}
}

func digestOf(data []byte) string {
	sum := digest.Of(data)
	return hex.EncodeToString(sum[:])
}
