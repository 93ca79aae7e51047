package config

import (
	"strings"
	"testing"

	"github.com/thole-dev/thole/host/rights"
)

func TestUnboundedConfigurationAllowsEveryValidPolicy(t *testing.T) {
	read := func(text string) (Policy, error) {
		return Config{}.WithDefaults().Unbounded("p", []byte(text)).ReadPolicy("p", []byte(text))
	}
	p, err := read(`
apiVersion: thole.dev/v1alpha1
serviceAccount: team/robot
digest: sha256:` + strings.Repeat("0", 64) + `
allow: [{groups: ['*'], kinds: ['*'], verbs: ['*'], namespaces: ['*']}]
namespaces: [a, b]
isolation: pooled
limits: {memoryMiB: 2048, timeout: 1h}
`)
	if err != nil || p.Account() != (rights.Account{Namespace: "team", Name: "robot"}) || len(p.Namespaces) != 2 || p.Isolation != IsolationPooled {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := read(""); err != nil || p.Allow != nil {
		t.Errorf("without a policy: %+v, %v", p, err)
	}
	for text, want := range map[string]string{
		"serviceAccount: robot":     "NAMESPACE/NAME",
		"serviceAccount: team/*":    "NAMESPACE/NAME",
		"digest: abc":               "SHA-256",
		"limits: {memoryMiB: 4096}": "2048",
		"isolation: none":           "isolation",
		"namespaces: [A]":           "DNS label",
		"allow: [{groups: [v1], kinds: ['*'], verbs: ['*']}]": "without a version",
		"alow: []": "did you mean",
		"{":        "p.yaml",
	} {
		if _, err := read("apiVersion: thole.dev/v1alpha1\n" + text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	bounded := Config{Allow: Ceiling{ServiceAccounts: map[string][]string{"p": {"team/robot"}}}}
	if err := bounded.MayActAs("p", rights.Account{Namespace: "team", Name: "robot"}); err != nil {
		t.Error(err)
	}
	if err := bounded.MayActAs("p", rights.Account{Namespace: "team", Name: "other"}); err == nil {
		t.Error("another account is allowed")
	}
}
