package config

import (
	"reflect"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/egress"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/rights"
)

const fullHost = "{host: '10.0.0.1:8443', scheme: https, methods: [GET, PUT], secretRef: {namespace: a, name: b}, header: X-Key, addresses: [private, 10.0.0.0/8], proxy: 'http://p:1'}"

func TestHTTPOfAPolicyIsRead(t *testing.T) {
	p, err := Config{Allow: Allow{}.WithEveryHTTP()}.WithDefaults().ReadPolicy("p", versioned("http: ["+fullHost+", {host: '*'}]\nlimits: {httpRequests: 3, httpRequestsPerSecond: 0.5}"))
	want := egress.Entries{{
		Host: "10.0.0.1:8443", Scheme: "https", Methods: []string{"GET", "PUT"}, SecretRef: &egress.SecretRef{Namespace: "a", Name: "b"}, Header: "X-Key",
		Addresses: []string{"private", "10.0.0.0/8"}, Proxy: "http://p:1",
	}, {Host: "*"}}
	if err != nil || !reflect.DeepEqual(p.HTTP, want) || p.Limits.HTTPRequests != 3 || p.Limits.HTTPRequestsPerSecond != 0.5 {
		t.Errorf("%+v, %v", p, err)
	}
	if l := p.Sandbox(); l.HTTPInstances != 3 {
		t.Errorf("%+v", l)
	}
	p.Limits.Instances, p.Limits.HTTPRequests = maxInstances-2, 1000
	if l := p.Sandbox(); l.HTTPInstances != 2 || l.Validate() != nil {
		t.Errorf("%+v", l)
	}
}

func TestHTTPThatIsNotValidIsRefused(t *testing.T) {
	c := Config{Allow: Allow{}.WithEveryHTTP()}.WithDefaults()
	for text, want := range map[string]string{
		"http: x":                           `http: Invalid value: "x": must be a list of entries, such as {host: api.example.com, methods: [GET, POST]}`,
		"http: [x]":                         `http[0]: Invalid value: "x": must be an entry, such as {host: api.example.com`,
		"http: [null]":                      "http[0]: Invalid value: null: must be an entry",
		"http: [{}]":                        "http[0].host: Required value: name a host",
		"http: [{hos: a}]":                  `unknown field "http[0].hos", did you mean "host"?`,
		"http: [{host: a, method: [GET]}]":  `unknown field "http[0].method", did you mean "methods"?`,
		"http: [{host: 5}]":                 "http[0].host: Invalid value: 5: must be text: write it in quotes",
		"http: [{host: [a]}]":               `http[0].host: Invalid value: ["a"]: must be text`,
		"http: [{host: }]":                  "http[0].host: Required value: write a value, or remove the line",
		"http: [{host: a, methods: GET}]":   `http[0].methods: Invalid value: "GET": must be a list of names`,
		"http: [{host: a, methods: [1]}]":   "http[0].methods[0]: Invalid value: 1: must be text",
		"http: [{host: a, methods: }]":      "http[0].methods: Required value: write a list, or remove the line",
		"http: [{host: a, secretRef: b/c}]": `http[0].secretRef: Invalid value: "b/c": must be a mapping of fields, such as {name: ...}`,
		"http: [{host: a, secretRef: {namespace: n, nam: s}}]":     `unknown field "http[0].secretRef.nam", did you mean "name"?`,
		"http: [{host: a, secretRef: {namespace: n, name: 7}}]":    "http[0].secretRef.name: Invalid value: 7: must be text",
		"http: [{host: a, secretRef: {namespace: n, name: null}}]": "http[0].secretRef.name: Required value: write a value",
		"http: [{host: a, secretRef: {name: s}}]":                  `http[0].secretRef.namespace: Invalid value: ""`,
		"http: [{host: a, addresses: [10.0.0.1]}]":                 `http[0].addresses[0]: Invalid value: "10.0.0.1"`,
		"limits: {httpRequests: 1001}":                             "limits.httpRequests: Invalid value: 1001: must be between 1 and 1000",
		"limits: {httpRequestsPerSecond: 0}":                       "limits.httpRequestsPerSecond: Invalid value: 0",
	} {
		t.Run(text, func(t *testing.T) {
			_, err := c.ReadPolicy("p", versioned(text))
			wantProblems(t, err, want)
			if at, isHTTP := strings.CutPrefix(text, "http: "); isHTTP {
				_, err = Read(write(t, "{allow: {http: {p: "+at+"}}}"))
				want = strings.ReplaceAll(strings.ReplaceAll(want, "http[0]", "allow.http[p][0]"), "http: Invalid", "allow.http[p]: Invalid")
				wantProblems(t, err, want)
			}
		})
	}
	_, err := c.ReadPolicy("p", versioned("http: [{hos: a}, {host: B}]\nallow: [{group: [a]}]\ndryRun: 1"))
	wantProblems(t, err, `"http[0].hos"`, `"allow[0].group"`, "dryRun: ")
	for text, want := range map[string]string{
		"{allow: {http: {p: []}}}":           "allow.http[p]: Required value: write an entry, or remove the line",
		"{allow: {http: {P_: [{host: a}]}}}": `allow.http: Invalid value: "P_": must be the name of a plugin, or "*"`,
		"{allow: {http: [a]}}":               `allow.http: Invalid value: ["a"]: must be a mapping from plugins to lists of entries, such as {host: `,
	} {
		_, err := Read(write(t, text))
		wantProblems(t, err, want)
	}
}

// Whoever may write a plugin may write a policy beside it.
func TestHTTPNeedsTheConfiguration(t *testing.T) {
	read := func(config, policy string) error {
		t.Helper()
		c, err := Read(write(t, config))
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.WithDefaults().ReadPolicy("p", versioned("http: ["+policy+"]"))
		return err
	}
	err := read("dryRun: true", fullHost)
	const refused = "p.yaml: http[0]: Forbidden: the host's configuration does not allow this much to the plugin: remove it, or have it allowed in the file of --config: "
	if err == nil || !strings.HasPrefix(err.Error(), refused) {
		t.Fatal(err)
	}
	line := strings.TrimPrefix(err.Error(), refused)
	if err := read(line, fullHost); err != nil {
		t.Errorf("what the error has to be written does not help: %s: %v", line, err)
	}
	if err := read(strings.Replace(line, "{p: ", "{'*': ", 1), fullHost); err != nil {
		t.Error(err)
	}
	for _, config := range []string{
		strings.Replace(line, "{p: ", "{q: ", 1),
		"{allow: {http: {p: [{host: other}], '*': [" + fullHost + "]}}}",
		strings.Replace(line, "GET, PUT", "GET", 1), strings.Replace(line, "name: b", "name: c", 1), strings.Replace(line, "X-Key", "X-Log", 1),
		strings.Replace(line, "[private, '10.0.0.0/8']", "['10.0.0.0/8']", 1), strings.Replace(line, "http://p:1", "http://q:1", 1), strings.Replace(line, "10.0.0.1:8443", "10.0.0.2:8443", 1),
		strings.Replace(line, "scheme: https, ", "", 1) + "#",
	} {
		if config == line {
			t.Fatalf("%s is not changed", config)
		}
		err := read(config, fullHost)
		if isDefault := strings.HasSuffix(config, "#"); isDefault != (err == nil) { // https is the default
			t.Errorf("%s: %v", config, err)
		}
	}
}

func TestNeedsAreWhatThePolicyLacks(t *testing.T) {
	widget := abi.Kind{APIVersion: "example.com/v1", Kind: "Widget"}
	served := func(k abi.Kind) (object.Resource, bool) { return object.Resource{Kind: k, Namespaced: true}, true }
	m := &abi.Manifest{Controllers: []abi.Controller{{For: widget.All(), Sections: []abi.Section{{Name: "mail", Value: []byte("{}")}}, Writes: []abi.Kind{{APIVersion: "v1", Kind: "Pod"}}, HTTP: []abi.HTTPHost{{Host: "a.b"}, {Host: "c.d"}}}}}
	p := Policy{HTTP: egress.Entries{{Host: "a.b"}}}
	sections := withMail().Sections
	needs := p.Lacks(m, served, sections)
	const entries, hosts = "[{groups: [''], kinds: [Pod], verbs: [create, patch, delete]}]", "[{host: a.b, methods: [GET]}, {host: c.d, methods: [GET]}]"
	if got, want := needs.PolicyText(), "{apiVersion: thole.dev/v1alpha1, mail: {}, allow: "+entries+", http: "+hosts+"}"; got != want || !needs.Any() || !needs.IsExact(p) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if again := p.With(needs).Lacks(m, served, sections); again.Any() || again.PolicyText() != "{apiVersion: thole.dev/v1alpha1}" {
		t.Errorf("%+v", again)
	}
	if p.Allow != nil || len(p.HTTP) != 1 || p.Sections != nil {
		t.Errorf("the policy has changed: %+v", p)
	}
	denial := Allow{}.Denial("p", needs)
	if !strings.Contains(denial, "write to p.yaml, beside the module, and leave its other fields as they are: "+needs.PolicyText()) ||
		!strings.HasSuffix(denial, "; and to the file of --config: {allow: {entries: {p: "+entries+"}, http: {p: "+hosts+"}}}") {
		t.Error(denial)
	}
	denial = Allow{Entries: map[string]rights.Entries{"p": rights.Everything()}}.Denial("p", needs)
	if !strings.HasSuffix(denial, "; and to the file of --config: {allow: {http: {p: "+hosts+"}}}") {
		t.Error(denial)
	}
	if denial = (Allow{Entries: map[string]rights.Entries{"p": rights.Everything()}}.WithEveryHTTP()).Denial("p", needs); strings.Contains(denial, "--config") {
		t.Error(denial)
	}
	m.Controllers[0].HTTP[1].Host = "*.d"
	if needs := p.Lacks(m, served, sections); needs.IsExact(p) || !needs.IsExact(Policy{HTTP: needs.HTTP}) {
		t.Errorf("%+v", needs)
	}
}
