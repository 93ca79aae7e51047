package webhooks

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/webhooks"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/rights"
)

// section is the field of the capability in policies and in the configuration.
func section() config.Section {
	return config.Section{
		Name: contract.Name, New: func() config.PolicySection { return NewSettings() },
		Config: func() config.HostSection { return NewHostSettings() }, Allow: config.Named{}, Missing: missing,
	}
}

// reviewing is a configuration that allows a plugin webhooks.
func reviewing(plugin string) config.Config {
	return config.Config{Plugins: "plugins", Sections: []config.Section{section()}, Allow: allowing(plugin)}.WithDefaults()
}

func allowing(plugin string) config.Ceiling {
	return config.Ceiling{Sections: map[string]map[string]config.AllowSection{contract.Name: {plugin: config.Named{}}}}
}

func webhooksPolicy(text string) []byte {
	return []byte("apiVersion: thole.dev/v1alpha1\n" + text)
}

func TestWebhooksOfAPolicyHaveDefaults(t *testing.T) {
	for text, want := range map[string]Settings{
		"webhooks: {}": {FailurePolicy: FailReview, Timeout: config.Duration{Duration: 2 * time.Second}},
		"webhooks: {failurePolicy: Ignore, timeout: 30s, namespaceSelector: 'a in (b, c),!d', objectSelector: x=y, matchConditions: [{name: a.b/c, expression: 'true'}]}": {
			FailurePolicy: IgnoreFailure, Timeout: config.Duration{Duration: 30 * time.Second}, NamespaceSelector: "a in (b, c),!d", ObjectSelector: "x=y",
			MatchConditions: MatchConditions{{"a.b/c", "true"}},
		},
	} {
		p, err := reviewing("p").ReadPolicy("p", webhooksPolicy(text))
		if err != nil || !reflect.DeepEqual(SettingsOf(p), &want) {
			t.Errorf("%s: %+v, %v", text, SettingsOf(p), err)
		}
	}
	if p, err := reviewing("p").ReadPolicy("p", nil); err != nil || SettingsOf(p) != nil {
		t.Errorf("without: %+v, %v", SettingsOf(p), err)
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
		"webhooks: {matchConditions: {name: a}}":                                                  "webhooks.matchConditions: Invalid value: {\"name\":\"a\"}: must be a list of entries, such as {name: replicas",
		"webhooks: {matchConditions: [a]}":                                                        `webhooks.matchConditions[0]: Invalid value: "a": must be an entry, such as {name: replicas`,
		"webhooks: {matchConditions: [{name: a, expresion: b}]}":                                  `unknown field "webhooks.matchConditions[0].expresion", did you mean "expression"?`,
		"webhooks: {matchConditions: [{name: a, expression: true}]}":                              "webhooks.matchConditions[0].expression: Invalid value: true: must be text",
		"webhooks: {matchConditions: [{name: a, expression: ' '}]}":                               "webhooks.matchConditions[0].expression: Required value",
		"webhooks: {matchConditions: [{name: 'a b', expression: x}]}":                             "webhooks.matchConditions[0].name: Invalid value",
		"webhooks: {matchConditions: [{name: a, expression: x}, {name: a, expression: z}]}":       "webhooks.matchConditions[1].name: Duplicate value",
		"webhooks: {matchConditions: [" + strings.Repeat("{name: a, expression: x}, ", 65) + "]}": "webhooks.matchConditions: Too many",
	} {
		_, err := reviewing("p").ReadPolicy("p", webhooksPolicy(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.100s\ngot  %v\nwant %s", text, err, want)
		}
	}
}

func TestWebhooksNeedTheConfiguration(t *testing.T) {
	_, err := reviewing("p").ReadPolicy("q", webhooksPolicy("webhooks: {}"))
	if err == nil || !strings.Contains(err.Error(), "{allow: {webhooks: [q]}}") {
		t.Errorf("got %v", err)
	}
	if _, err := reviewing(config.EveryPlugin).ReadPolicy("q", webhooksPolicy("webhooks: {}")); err != nil {
		t.Error(err)
	}
}

func TestPluginThatReviewsLacksWebhooks(t *testing.T) {
	served := func(k abi.Kind) (object.Resource, bool) { return object.Resource{Kind: k, Namespaced: true}, true }
	sections, all := []config.Section{section()}, config.Policy{Allow: rights.Everything()}
	for name, w := range map[string]contract.Webhooks{
		"validate": {Validate: []contract.Operation{contract.OperationCreate}}, "mutate": {Mutate: []contract.Operation{contract.OperationCreate}}, "convert": {Convert: true},
	} {
		m := &abi.Manifest{Controllers: []abi.Controller{{}, {Sections: []abi.Section{w.Section()}}}}
		needs := all.Missing(m, served, sections)
		if with := all.With(needs).Missing(m, served, sections); !needs.Any() || with.Any() {
			t.Errorf("%s: %+v, and with webhooks %+v", name, needs, with)
		}
		denial := config.Ceiling{}.Denial("p", needs)
		if !strings.Contains(denial, "{apiVersion: thole.dev/v1alpha1, webhooks: {}}") || !strings.Contains(denial, "; and to the file of --config: {allow: {webhooks: [p]}}") {
			t.Errorf("%s: %s", name, denial)
		}
	}
	if all.Missing(&abi.Manifest{Controllers: []abi.Controller{{}}}, served, sections).Any() {
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
		"webhooks: {validity: 5s}":                            `webhooks.validity: Invalid value: "5s": must be between 10s and 87600h0m0s`,
		"webhooks: {service: {port: 0}}":                      "webhooks.service.port: Invalid value: 0",
		"webhooks: {url: 'https://host'}":                     "",
		"webhooks: {certificate: x}":                          `unknown field "webhooks.certificate"`,
		"allow: {webhooks: [A]}":                              "allow.webhooks: Invalid value",
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
		switch _, err := config.Read(path, section()); {
		case want == "" && err != nil:
			t.Errorf("%s: %v", text, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s\ngot  %v\nwant %s", text, err, want)
		}
	}
}
