package main

import (
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
)

func TestThePodOfTheEnvironment(t *testing.T) {
	whole := corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "n", Name: "p", UID: "u"}
	for given, want := range map[string]struct {
		pod  *corev1.ObjectReference
		warn bool
	}{
		"POD_NAME=p POD_NAMESPACE=n POD_UID=u": {pod: &whole},
		"":                                     {},
		"POD_NAME=p POD_NAMESPACE=n":           {warn: true}, // kubectl describe would not show Events without a uid
		"POD_NAMESPACE=n":                      {warn: true},
		"POD_NAME=p POD_NAMESPACE= POD_UID=u":  {warn: true},
	} {
		env := map[string]string{}
		for pair := range strings.FieldsSeq(given) {
			name, value, _ := strings.Cut(pair, "=")
			env[name] = value
		}
		var log strings.Builder
		got := podOf(func(name string) string { return env[name] }, hclog.New(&hclog.LoggerOptions{Output: &log}))
		if (got == nil) != (want.pod == nil) || got != nil && *got != *want.pod {
			t.Errorf("%q: %+v, want %+v", given, got, want.pod)
		}
		if warned := log.Len() > 0; warned != want.warn {
			t.Errorf("%q: warned %v, want %v", given, warned, want.warn)
		}
	}
}
