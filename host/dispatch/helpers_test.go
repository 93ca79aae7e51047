package dispatch

import (
	"testing"

	"github.com/thole-dev/thole/abi/rawjson"
)

func mergePatch(t *testing.T, raw []byte, patch string) []byte {
	t.Helper()
	out, err := rawjson.MergePatch(raw, []byte(patch))
	if err != nil {
		t.Fatal(err)
	}
	return out
}
