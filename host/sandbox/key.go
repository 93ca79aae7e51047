package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/thole-dev/thole/host/sandbox/meter"
	"github.com/thole-dev/thole/host/sandbox/native"
)

// rewriteVersion changes when the same module is verified or rewritten in
// another way than before, so that the cache forgets it; see also
// [meter.Options.Key].
const rewriteVersion = 2

// cacheKey is what compiled code depends on beside the machine: the file, the
// engine, how the file was rewritten, and the functions that it was held
// against.
func cacheKey(digest [sha256.Size]byte, o meter.Options) string {
	key := sha256.New()
	fmt.Fprintln(key, hex.EncodeToString(digest[:]), native.EngineVersion, rewriteVersion, o.Key())
	for _, e := range exports {
		fmt.Fprintln(key, e.name, e.typ, e.required)
	}
	for _, symbol := range Functions() {
		fmt.Fprintln(key, symbol, served[symbol])
	}
	return hex.EncodeToString(key.Sum(nil))
}
