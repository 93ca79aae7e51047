package cloudevents

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestProblemsOfSettings(t *testing.T) {
	ref := &SecretRef{Namespace: "ns", Name: "s"}
	many := make(Sinks, 9)
	for i := range many {
		many[i].URL = "https://a.example.com"
	}
	for name, c := range map[string]struct {
		settings Settings
		want     []string // parts of the problems, in their order
	}{
		"nothing":            {Settings{}, nil},
		"all fields":         {Settings{TypePrefix: "com.example", Sinks: Sinks{{Name: "x", URL: "https://a.example.com/in?code=1", Mode: ModeBatch, SecretRef: ref, Header: "X-Key", Addresses: []string{"private"}, Proxy: "http://proxy:3128"}}}, nil},
		"no URL":             {Settings{Sinks: Sinks{{}}}, []string{"cloudEvents.sinks[0].url: Required value: write the URL"}},
		"without a scheme":   {Settings{Sinks: Sinks{{URL: "a.example.com/in"}}}, []string{"cloudEvents.sinks[0].url: Invalid value: must begin with https:// or http://"}},
		"another scheme":     {Settings{Sinks: Sinks{{URL: "nats://a.example.com"}}}, []string{"sinks[0].url: Invalid value: must begin with https:// or http://"}},
		"a password":         {Settings{Sinks: Sinks{{URL: "https://u:hunter2@a.example.com"}}}, []string{"must have no user or password"}},
		"a long URL":         {Settings{Sinks: Sinks{{URL: "https://a.example.com/" + strings.Repeat("x", 3000)}}}, []string{"url: Too long"}},
		"a wildcard":         {Settings{Sinks: Sinks{{URL: "https://*.example.com/"}}}, []string{"sinks[0].url: Invalid"}},
		"http with a secret": {Settings{Sinks: Sinks{{URL: "http://a.example.com", SecretRef: ref, Header: "X-Key"}}}, []string{"sinks[0].secretRef: Forbidden: a credential is sent by https only"}},
		"http to loopback":   {Settings{Sinks: Sinks{{URL: "http://127.0.0.1:80", SecretRef: ref, Addresses: []string{"loopback"}}}}, nil},
		"header of event":    {Settings{Sinks: Sinks{{URL: "https://a.example.com", SecretRef: ref, Header: "Ce-Id"}}}, []string{"sinks[0].header: Invalid value: \"Ce-Id\": is a header of the event"}},
		"header alone":       {Settings{Sinks: Sinks{{URL: "https://a.example.com", Header: "X-Key"}}}, []string{"sinks[0].header: Forbidden"}},
		"unknown mode":       {Settings{Sinks: Sinks{{URL: "https://a.example.com", Mode: "Structured"}}}, []string{`sinks[0].mode: Unsupported value: "Structured": supported values: "structured", "binary", "batch"`}},
		"bad addresses":      {Settings{Sinks: Sinks{{URL: "https://a.example.com", Addresses: []string{"10.0.0.1/8"}}}}, []string{"sinks[0].addresses[0]: Invalid"}},
		"bad name":           {Settings{Sinks: Sinks{{Name: "A b", URL: "https://a.example.com"}}}, []string{"sinks[0].name: Invalid"}},
		"same host":          {Settings{Sinks: Sinks{{URL: "https://a.example.com/1"}, {URL: "https://a.example.com:443/2"}}}, []string{`sinks[1].name: Duplicate value: "a.example.com"`}},
		"same host, names":   {Settings{Sinks: Sinks{{URL: "https://a.example.com/1"}, {Name: "b", URL: "https://a.example.com/1"}}}, nil},
		"nine":               {Settings{Sinks: many}, []string{"sinks: Too many: 9: must have at most 8 items"}},
		"prefix with a dot":  {Settings{TypePrefix: "com.example."}, []string{"typePrefix: Invalid value: must be letters"}},
		"prefix with a line": {Settings{TypePrefix: "a\nb"}, []string{"typePrefix: Invalid"}},
		"long prefix":        {Settings{TypePrefix: strings.Repeat("a", 129)}, []string{"typePrefix: Invalid"}},
	} {
		t.Run(name, func(t *testing.T) {
			problems := c.settings.problems(field.NewPath("cloudEvents"))
			if len(problems) != len(c.want) {
				t.Fatalf("got %v, want %q", problems, c.want)
			}
			for i, want := range c.want {
				if got := problems[i].Error(); !strings.Contains(got, want) || strings.Contains(got, "hunter2") {
					t.Errorf("got  %s\nwant %s", got, want)
				}
			}
		})
	}
}
