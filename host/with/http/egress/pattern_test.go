package egress

import (
	"encoding/json"
	"strings"
	"testing"

	contract "github.com/thole-dev/thole/abi/http"
)

// What a manifest may declare, a policy can name: otherwise each request of the plugin would be denied.
func FuzzHostOfAManifest(f *testing.F) {
	for _, host := range []string{
		"*", "a", "a.b:8443", "*.a.b", "1.2.3.4", "1.2.3", "a.0x1f", "a..b", "-a", "a:99999", "a:0443", "[::1", "[::1]:80", "[1:2:3:4:5:6:1.2.3.4]", "[1::2:3:4:5:6:7:8]", "[::1.2.3]", "*.1.2.3.4", "*.[::1]", "a_b", "A",
	} {
		f.Add(host)
	}
	f.Fuzz(func(t *testing.T, host string) {
		text, _ := json.Marshal(host)
		_, err := contract.Decode([]byte(`[{"host":` + string(text) + `}]`))
		if err != nil && strings.Trim(host, "ab") == "" && host != "" && len(host) < 60 {
			t.Errorf("a name is refused: %v", err)
		}
		if err != nil || strings.Contains(host, "xn--") { // of which abi does not check the encoding
			return
		}
		if _, err := parsePattern(host); err != nil {
			t.Errorf("%q: %v", host, err)
		}
	})
}
