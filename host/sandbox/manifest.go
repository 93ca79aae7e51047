package sandbox

import (
	"fmt"

	"github.com/thole-dev/thole/abi"
)

// readManifest decodes what describe wrote, which checks it, and holds its
// name against the file's: policy, finalizers and field managers go by it. The
// manifest of another name is answered beside the error.
func readManifest(text []byte, plugin string) (*abi.Manifest, error) {
	m, err := abi.DecodeManifest(text)
	if err != nil {
		return nil, err
	}
	if m.Name != plugin {
		return m, fmt.Errorf("name is %q, but the file is %s.wasm: the two must be equal, rename one", m.Name, plugin)
	}
	return m, nil
}
