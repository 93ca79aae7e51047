package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func readConfig(t *testing.T, text string) (Config, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Read(file)
}

func TestPoliciesOfTheConfiguration(t *testing.T) {
	c, err := readConfig(t, `
allow: {serviceAccounts: {web: [team-a/web]}}
limits: {memoryMiB: 32}
policies:
  web: {apiVersion: thole.dev/v1alpha1, serviceAccount: team-a/web, limits: {hostCalls: 7}, config: {big: 12345678901234567890}}
`)
	if err != nil {
		t.Fatal(err)
	}
	c = c.WithDefaults()
	p, err := c.ReadPolicy("web", nil)
	if err != nil || p.ServiceAccount != "team-a/web" || p.Limits.HostCalls != 7 || p.Limits.MemoryMiB != 32 || string(p.Config) != `{"big":12345678901234567890}` {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := c.ReadPolicy("other", nil); err != nil || p.ServiceAccount != "" {
		t.Errorf("another plugin: %+v, %v", p, err)
	}
	for _, text := range []string{"apiVersion: thole.dev/v1alpha1", "", "nonsense: {"} {
		if _, err := c.ReadPolicy("web", []byte(text)); err == nil || !strings.Contains(err.Error(), "remove the file, or policies.web") {
			t.Errorf("a file with %q besides: %v", text, err)
		}
	}
}

func TestPoliciesOfTheConfigurationAreChecked(t *testing.T) {
	for text, want := range map[string]string{
		"policies: {web: {apiVersion: thole.dev/v1alpha1, serviceAccount: team-a/web}}": "policies.web: serviceAccount: Forbidden",
		"policies: {web: {apiVersion: thole.dev/v1alpha1, limits: {memoryMiB: 65}}}":    "policies.web: limits.memoryMiB: Invalid value: 65",
		"policies: {web: {apiVersion: thole.dev/v1alpha1, limit: {memoryMiB: 1}}}":      `policies.web: unknown field "limit"`,
		"policies: {web: {serviceAccount: a/b}}":                                        "policies.web: apiVersion: Required value",
		"policies: {web: {apiVersion: thole.dev/v2}}":                                   `policies.web: apiVersion: Unsupported value: "thole.dev/v2"`,
		"policies: {'*': {apiVersion: thole.dev/v1alpha1}}":                             `policies: Invalid value: "*": must be the name of a plugin`,
		"policies: [web]":      "must be a mapping from plugins to policies",
		"policies: {web: [a]}": "policies.web: must be a mapping of fields",
	} {
		if _, err := readConfig(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
