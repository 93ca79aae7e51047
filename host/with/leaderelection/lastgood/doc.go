// Package lastgood keeps the last good module of each plugin beyond the life of a process: the one
// that runs if the module in the plugin directory cannot, since it was rolled back or cannot be
// loaded.
//
// There are two places. A [Directory] has the modules that this replica has loaded, and lasts as long
// as the volume that it is on: an emptyDir ends with its pod. [Secrets] have one module of each
// plugin, which the replica that leads the plugin writes there; they last, and hold what takes at
// most [MaxSecret] compressed.
//
// Neither says what is good. Who reads a module names its digest, which the leader of the plugin has
// recorded, and gets that module or an error: what others have written there is never run.
package lastgood

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
)

// MaxSecret is how many bytes a module may take compressed that is to be kept in a Secret: a little
// less than Kubernetes allows, which is 1 MiB of data.
const MaxSecret = corev1.MaxSecretSize - 1<<10

// ErrNotKept is the error for a module that a place does not have.
var ErrNotKept = errors.New("it is not there")

// Packed is a compressed module, as both places have it.
type Packed []byte

// Pack compresses a module.
func Pack(module []byte) Packed {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(module) // a buffer takes everything
	_ = w.Close()
	return out.Bytes()
}

// FitsSecret returns an error if no Secret holds the module.
func (p Packed) FitsSecret() error {
	if len(p) > MaxSecret {
		return fmt.Errorf("the module takes %d KiB compressed, and a Secret holds %d KiB", (len(p)+1023)>>10, MaxSecret>>10)
	}
	return nil
}

// module returns the module with that digest, SHA-256 in hex. The error is an [ErrNotKept] if it has
// another one, and states what is wrong.
func (p Packed) module(digest string, most int64) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(p))
	if err != nil {
		return nil, fmt.Errorf("%w: what is there is no module: %w", ErrNotKept, err)
	}
	module, err := io.ReadAll(io.LimitReader(r, most+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: what is there is no module: %w", ErrNotKept, err)
	case int64(len(module)) > most:
		return nil, fmt.Errorf("%w: what is there has more than the limit of %d bytes", ErrNotKept, most)
	}
	if have := Digest(module); have != digest {
		return nil, fmt.Errorf("%w: what is there has the digest sha256:%s", ErrNotKept, have)
	}
	return module, nil
}

// Digest returns the digest of a module, SHA-256 in hex.
func Digest(module []byte) string {
	sum := sha256.Sum256(module)
	return hex.EncodeToString(sum[:])
}
