package config

import (
	"strings"
	"testing"
)

func TestAPolicyPinsOneModule(t *testing.T) {
	const digest = "26b19cf35b9a26b19cf35b9a26b19cf35b9a26b19cf35b9a26b19cf35b9a0123"
	c := Config{}.WithDefaults()
	read := func(text string) (Policy, error) {
		return c.ReadPolicy("p", []byte("apiVersion: thole.dev/v1alpha1\ndigest: "+text))
	}
	p, err := read("sha256:" + digest)
	if err != nil || !p.Pins(digest) || p.Pins("") || p.Pins(strings.Repeat("0", 64)) {
		t.Errorf("got %+v, %v", p, err)
	}
	for _, text := range []string{digest, "sha256:" + digest[1:], "sha256:" + digest + "0", "sha256:" + strings.ToUpper(digest), "sha512:" + digest, `"sha256:"`, `"sha256:` + digest + `\n"`} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), "sha256:<64 lower case hexadecimal digits>") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A template that finds no value must not lead to a plugin that is not pinned, or acts as
// the host.
func TestATextWithoutAValueIsRefused(t *testing.T) {
	c := Config{}.WithDefaults()
	for _, text := range []string{"digest: ''", "digest:", "serviceAccount: ''", "serviceAccount:", "isolation: ''"} {
		_, err := c.ReadPolicy("p", []byte("apiVersion: thole.dev/v1alpha1\n"+text))
		if name, _, _ := strings.Cut(text, ":"); err == nil || err.Error() != "p.yaml: "+name+": Required value: write a value, or remove the line for the default" {
			t.Errorf("%s: %v", text, err)
		}
	}
}
