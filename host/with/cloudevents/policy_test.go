package cloudevents

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/with"
	"github.com/thole-dev/thole/host/with/http"
	"github.com/thole-dev/thole/host/with/http/egress"
)

func sections() []config.Section { return with.List{Capability(), http.Capability()}.Sections() }

func versioned(text string) []byte { return []byte("apiVersion: thole.dev/v1alpha1\n" + text) }

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func wantProblems(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

const fullSink = "{name: s, url: 'https://10.0.0.1:8443/in', mode: batch, secretRef: {namespace: a, name: b}, header: X-Key, addresses: [private], proxy: 'http://p:1'}"

func TestCloudEventsOfAPolicyAreRead(t *testing.T) {
	p, err := config.Config{Allow: config.Ceiling{}.WithAllSections(), Sections: sections()}.WithDefaults().ReadPolicy("p", versioned("cloudEvents: {typePrefix: com.example, sinks: ["+fullSink+", {url: 'https://b.example.com'}]}"))
	want := &Settings{TypePrefix: "com.example", Sinks: Sinks{{
		Name: "s", URL: "https://10.0.0.1:8443/in", Mode: ModeBatch, SecretRef: &egress.SecretRef{Namespace: "a", Name: "b"}, Header: "X-Key",
		Addresses: []string{"private"}, Proxy: "http://p:1",
	}, {URL: "https://b.example.com"}}}
	if err != nil || !reflect.DeepEqual(p.Sections, map[string]config.PolicySection{"cloudEvents": want}) {
		t.Errorf("%+v, %v", p.Sections, err)
	}
	if got := p.Secrets(); !reflect.DeepEqual(got, []egress.SecretRef{{Namespace: "a", Name: "b"}}) {
		t.Errorf("Secrets: %v", got)
	}
}

func TestCloudEventsThatAreNotValidAreRefused(t *testing.T) {
	c := config.Config{Allow: config.Ceiling{}.WithAllSections(), Sections: sections()}.WithDefaults()
	const ref = "secretRef: {namespace: a, name: b}"
	for text, want := range map[string]string{
		"cloudEvents: x":                                                            `cloudEvents: Invalid value: "x": must be a mapping of fields`,
		"cloudEvents: [x]":                                                          `cloudEvents: Invalid value: ["x"]: must be a mapping of fields`,
		"cloudEvents: {sink: []}":                                                   `unknown field "cloudEvents.sink", did you mean "cloudEvents.sinks"?`,
		"cloudEvents: {typePrefix: 5}":                                              "cloudEvents.typePrefix: Invalid value: 5: must be text",
		"cloudEvents: {typePrefix: a.}":                                             "cloudEvents.typePrefix: Invalid value: must be letters",
		"cloudEvents: {sinks: x}":                                                   `cloudEvents.sinks: Invalid value: "x": must be a list of entries, such as {url: 'https://events.example.com/in', mode: batch}`,
		"cloudEvents: {sinks: [x]}":                                                 `cloudEvents.sinks[0]: Invalid value: "x": must be an entry, such as {url: `,
		"cloudEvents: {sinks: [{}]}":                                                "cloudEvents.sinks[0].url: Required value",
		"cloudEvents: {sinks: [{uri: a}]}":                                          `unknown field "cloudEvents.sinks[0].uri", did you mean "url"?`,
		"cloudEvents: {sinks: [{url: 5}]}":                                          "cloudEvents.sinks[0].url: Invalid value: 5: must be text",
		"cloudEvents: {sinks: [{url: events.example.com}]}":                         "cloudEvents.sinks[0].url: Invalid value: must begin with https:// or http://",
		"cloudEvents: {sinks: [{url: 'https://a', mode: x}]}":                       `cloudEvents.sinks[0].mode: Unsupported value: "x"`,
		"cloudEvents: {sinks: [{url: 'https://a', mode: 1}]}":                       "cloudEvents.sinks[0].mode: Invalid value: 1: must be text",
		"cloudEvents: {sinks: [{url: 'http://a.example.com', " + ref + "}]}":        "cloudEvents.sinks[0].secretRef: Forbidden: a credential is sent by https only",
		"cloudEvents: {sinks: [{url: 'https://a', methods: [GET]}]}":                `unknown field "cloudEvents.sinks[0].methods"`,
		"cloudEvents: {sinks: [" + strings.Repeat("{url: 'https://a'}, ", 9) + "]}": "cloudEvents.sinks: Too many: 9: must have at most 8 items",
	} {
		t.Run(text, func(t *testing.T) {
			_, err := c.ReadPolicy("p", versioned(text))
			wantProblems(t, err, want)
		})
	}
}

// Whoever may write a plugin may write a policy beside it, and must not send events wherever that says.
func TestSinksNeedTheConfiguration(t *testing.T) {
	read := func(text string) error {
		t.Helper()
		c, err := config.Read(write(t, text), sections()...)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.WithDefaults().ReadPolicy("p", versioned("cloudEvents: {sinks: [{url: 'https://ok.example.com/in'}, "+fullSink+"]}"))
		return err
	}
	const ok = "{host: ok.example.com, methods: [POST]}"
	err := read("{allow: {http: {p: [" + ok + "]}}}")
	const refused = "p.yaml: cloudEvents.sinks[1]: Forbidden: the host's configuration does not allow this much to the plugin: remove it, or have it allowed in the file of --config: "
	if err == nil || !strings.HasPrefix(err.Error(), refused) {
		t.Fatal(err)
	}
	line := strings.Replace(strings.TrimPrefix(err.Error(), refused), "p: [", "p: ["+ok+", ", 1)
	if err := read(line); err != nil {
		t.Errorf("what the error has to be written does not help: %s: %v", line, err)
	}
	for _, other := range []string{
		"dryRun: true",
		strings.Replace(line, "methods: [POST]}, {", "methods: [GET]}, {", 1),
		strings.Replace(line, "name: b", "name: c", 1),
		strings.Replace(line, "10.0.0.1:8443", "10.0.0.1:8444", 1),
		strings.Replace(line, "{p: ", "{q: ", 1),
	} {
		if other == line {
			t.Fatalf("%s is not changed", other)
		}
		if read(other) == nil {
			t.Errorf("%s allows the sinks", other)
		}
	}
}
