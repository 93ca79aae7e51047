package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/webhooks"
	"github.com/thole-dev/thole/host/object"
)

// reviewing is a configuration that allows the plugin "p" webhooks.
func reviewing() Config {
	return Config{Plugins: "plugins", Allow: Allow{Webhooks: []string{"p"}}}.WithDefaults()
}

func webhooksPolicy(text string) []byte {
	return []byte("apiVersion: thole.dev/v1alpha1\n" + text)
}

func TestWebhooksOfAPolicyHaveDefaults(t *testing.T) {
	for text, want := range map[string]Webhooks{
		"webhooks: {}": {FailurePolicy: FailReview, Timeout: Duration{2 * time.Second}},
		"webhooks: {failurePolicy: Ignore, timeout: 30s, namespaceSelector: 'a in (b, c),!d', objectSelector: x=y, matchConditions: [{name: a.b/c, expression: 'true'}]}": {
			FailurePolicy: IgnoreFailure, Timeout: Duration{30 * time.Second}, NamespaceSelector: "a in (b, c),!d", ObjectSelector: "x=y",
			MatchConditions: MatchConditions{{"a.b/c", "true"}},
		},
	} {
		p, err := reviewing().ReadPolicy("p", webhooksPolicy(text))
		if err != nil || p.Webhooks == nil || !(Policy{Webhooks: p.Webhooks}).Equal(Policy{Webhooks: &want}) {
			t.Errorf("%s: %+v, %v", text, p.Webhooks, err)
		}
	}
	if p, err := reviewing().ReadPolicy("p", nil); err != nil || p.Webhooks != nil {
		t.Errorf("without: %+v, %v", p.Webhooks, err)
	}
}

func TestInvalidWebhooksAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"webhooks:":                                                                               "webhooks: Required value: write {} for the defaults, or remove the line to allow none",
		"webhooks: true":                                                                          "webhooks: Invalid value: true: must be a mapping of fields",
		"webhooks: {failurepolicy: Fail}":                                                         `unknown field "webhooks.failurepolicy", did you mean "webhooks.failurePolicy"?`,
		"webhooks: {failurePolicy: fail}":                                                         `webhooks.failurePolicy: Unsupported value: "fail": supported values: "Fail", "Ignore"`,
		"webhooks: {failurePolicy: ''}":                                                           "webhooks.failurePolicy: Required value",
		"webhooks: {timeout: 2}":                                                                  "webhooks.timeout: Invalid value: 2: must be a duration",
		"webhooks: {timeout: 500ms}":                                                              `webhooks.timeout: Invalid value: "500ms": must be between 1s and 30s`,
		"webhooks: {timeout: 31s}":                                                                "must be between 1s and 30s",
		"webhooks: {objectSelector: 'a>1'}":                                                       "webhooks.objectSelector: Invalid value",
		"webhooks: {namespaceSelector: 'a in b'}":                                                 "webhooks.namespaceSelector: Invalid value",
		"webhooks: {namespaceSelector: {matchLabels: {a: b}}}":                                    "webhooks.namespaceSelector: Invalid value: {\"matchLabels\":{\"a\":\"b\"}}: must be text",
		"webhooks: {matchConditions: {name: a}}":                                                  "webhooks.matchConditions: Invalid value: {\"name\":\"a\"}: must be a list of conditions",
		"webhooks: {matchConditions: [a]}":                                                        `webhooks.matchConditions[0]: Invalid value: "a": must be a condition`,
		"webhooks: {matchConditions: [{name: a, expresion: b}]}":                                  `unknown field "webhooks.matchConditions[0].expresion", did you mean "expression"?`,
		"webhooks: {matchConditions: [{name: a, expression: true}]}":                              "webhooks.matchConditions[0].expression: Invalid value: true: must be text",
		"webhooks: {matchConditions: [{name: a, expression: ' '}]}":                               "webhooks.matchConditions[0].expression: Required value",
		"webhooks: {matchConditions: [{name: 'a b', expression: x}]}":                             "webhooks.matchConditions[0].name: Invalid value",
		"webhooks: {matchConditions: [{name: a, expression: x}, {name: a, expression: z}]}":       "webhooks.matchConditions[1].name: Duplicate value",
		"webhooks: {matchConditions: [" + strings.Repeat("{name: a, expression: x}, ", 65) + "]}": "webhooks.matchConditions: Too many",
	} {
		_, err := reviewing().ReadPolicy("p", webhooksPolicy(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.100s\ngot  %v\nwant %s", text, err, want)
		}
	}
}

func TestWebhooksNeedTheConfiguration(t *testing.T) {
	_, err := reviewing().ReadPolicy("q", webhooksPolicy("webhooks: {}"))
	if err == nil || !strings.Contains(err.Error(), "{allow: {webhooks: [q]}}") {
		t.Errorf("got %v", err)
	}
	c := reviewing()
	c.Allow.Webhooks = []string{EveryPlugin}
	if _, err := c.ReadPolicy("q", webhooksPolicy("webhooks: {}")); err != nil {
		t.Error(err)
	}
}

func TestPluginThatReviewsLacksWebhooks(t *testing.T) {
	served := func(k abi.Kind) (object.Resource, bool) { return object.Resource{Kind: k, Namespaced: true}, true }
	for name, w := range map[string]webhooks.Webhooks{
		"validate": {Validate: []webhooks.Operation{webhooks.OperationCreate}}, "mutate": {Mutate: []webhooks.Operation{webhooks.OperationCreate}}, "convert": {Convert: true},
	} {
		c := abi.Controller{Sections: []abi.Section{w.Section()}}
		m := &abi.Manifest{Controllers: []abi.Controller{{}, c}}
		needs := (Policy{}).Lacks(m, served, nil)
		if with := (Policy{}).With(needs).Lacks(m, served, nil); !needs.Webhooks || with.Webhooks {
			t.Errorf("%s: %+v, and with webhooks %+v", name, needs, with)
		}
		denial := Allow{}.Denial("p", Needs{Webhooks: true})
		if !strings.Contains(denial, "{apiVersion: thole.dev/v1alpha1, webhooks: {}}") || !strings.Contains(denial, "; and to the file of --config: {allow: {webhooks: [p]}}") {
			t.Errorf("%s: %s", name, denial)
		}
	}
	if (Policy{}).Lacks(&abi.Manifest{Controllers: []abi.Controller{{}}}, served, nil).Webhooks {
		t.Error("a plugin that reviews nothing needs webhooks")
	}
}

func TestWebhookConfigurationIsChecked(t *testing.T) {
	expectRead(t, map[string]string{
		"webhooks: {listen: ':9443'}": "",
		"webhooks: {listen: ':9443', url: 'https://host:9443', secret: {namespace: a}, clientCA: f, clientNames: [a], validity: 24h}": "",
		"webhooks: {listen: '9443'}":                          "webhooks.listen: Invalid value",
		"webhooks: {url: 'http://host'}":                      "webhooks.url: Invalid value",
		"webhooks: {url: 'https://host/path'}":                "webhooks.url: Invalid value",
		"webhooks: {url: 'https://a:b@host'}":                 "webhooks.url: Invalid value",
		"webhooks: {url: 'https://host', service: {name: a}}": "there are url and service",
		"webhooks: {service: {name: A}}":                      "webhooks.service.name: Invalid value",
		"webhooks: {service: {port: 70000}}":                  "webhooks.service.port: Invalid value: 70000: must be between 1 and 65535",
		"webhooks: {secret: {namespace: a.b}}":                "webhooks.secret.namespace: Invalid value",
		"webhooks: {secret: a/b}":                             "webhooks.secret: Invalid value",
		"webhooks: {clientNames: [a]}":                        "webhooks.clientCA: Required value",
		"webhooks: {validity: 5s}":                            "webhooks.validity: Invalid value",
		"webhooks: {certificate: x}":                          `unknown field "webhooks.certificate"`,
		"allow: {webhooks: [A]}":                              "allow.webhooks[0]: Invalid value",
	})
}

// expectRead expects a part of an error for each text of a configuration file, "" for none.
func expectRead(t *testing.T, wants map[string]string) {
	t.Helper()
	for text, want := range wants {
		path := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		switch _, err := Read(path); {
		case want == "" && err != nil:
			t.Errorf("%s: %v", text, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s\ngot  %v\nwant %s", text, err, want)
		}
	}
}
