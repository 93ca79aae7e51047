package http

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/http"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/with"
	"github.com/thole-dev/thole/host/with/http/egress"
)

func sections() []config.Section { return with.List{Capability()}.Sections() }

func versioned(text string) []byte { return []byte("apiVersion: thole.dev/v1alpha1\n" + text) }

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func wantProblems(t *testing.T, err error, want ...string) {
	t.Helper()
	for _, text := range want {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("got  %v\nwant %s", err, text)
		}
	}
}

// unbounded is a host whose configuration allows every host.
func unbounded() config.Config {
	return config.Config{Allow: config.Ceiling{}.WithAllSections(), Sections: sections()}.WithDefaults()
}

// settings returns the http of a policy.
func settings(p config.Policy) *Settings { return p.Sections[contract.Name].(*Settings) }

const fullHost = "{host: '10.0.0.1:8443', scheme: https, methods: [GET, PUT], secretRef: {namespace: a, name: b}, header: X-Key, addresses: [private, 10.0.0.0/8], proxy: 'http://p:1'}"

func TestHTTPOfAPolicyIsRead(t *testing.T) {
	p, err := unbounded().ReadPolicy("p", versioned("http: {hosts: ["+fullHost+", {host: '*'}], requests: 3, requestsPerSecond: 0.5}"))
	want := egress.Entries{{
		Host: "10.0.0.1:8443", Scheme: "https", Methods: []string{"GET", "PUT"}, SecretRef: &egress.SecretRef{Namespace: "a", Name: "b"}, Header: "X-Key",
		Addresses: []string{"private", "10.0.0.0/8"}, Proxy: "http://p:1",
	}, {Host: "*"}}
	if err != nil {
		t.Fatal(err)
	}
	if s := settings(p); !reflect.DeepEqual(s.Hosts, want) || s.Requests != 3 || s.RequestsPerSecond != 0.5 {
		t.Errorf("%+v", s)
	}
	if l := p.Sandbox(); l.Waiting != 3 {
		t.Errorf("%+v", l)
	}
	if got := p.Secrets(); !reflect.DeepEqual(got, []egress.SecretRef{{Namespace: "a", Name: "b"}}) {
		t.Errorf("Secrets: %v", got)
	}
	if p, err = unbounded().ReadPolicy("p", versioned("http: {}")); err != nil || settings(p).Requests != 16 || settings(p).RequestsPerSecond != 50 {
		t.Errorf("%+v, %v", p.Sections, err)
	}
}

func TestHTTPThatIsNotValidIsRefused(t *testing.T) {
	c := unbounded()
	for text, want := range map[string]string{
		"{hosts: x}":                                                  `http.hosts: Invalid value: "x": must be a list of entries, such as {host: api.example.com, methods: [GET, POST]}`,
		"{hosts: [x]}":                                                `http.hosts[0]: Invalid value: "x": must be an entry, such as {host: api.example.com`,
		"{hosts: [null]}":                                             "http.hosts[0]: Invalid value: null: must be an entry",
		"{hosts: [{}]}":                                               "http.hosts[0].host: Required value: name a host",
		"{hosts: [{hos: a}]}":                                         `unknown field "http.hosts[0].hos", did you mean "host"?`,
		"{hosts: [{host: a, method: [GET]}]}":                         `unknown field "http.hosts[0].method", did you mean "methods"?`,
		"{hosts: [{host: 5}]}":                                        "http.hosts[0].host: Invalid value: 5: must be text: write it in quotes",
		"{hosts: [{host: [a]}]}":                                      `http.hosts[0].host: Invalid value: ["a"]: must be text`,
		"{hosts: [{host: }]}":                                         "http.hosts[0].host: Required value: write a value, or remove the line",
		"{hosts: [{host: a, methods: GET}]}":                          `http.hosts[0].methods: Invalid value: "GET": must be a list of names`,
		"{hosts: [{host: a, methods: [1]}]}":                          "http.hosts[0].methods[0]: Invalid value: 1: must be text",
		"{hosts: [{host: a, methods: }]}":                             "http.hosts[0].methods: Required value: write a list, or remove the line",
		"{hosts: [{host: a, secretRef: b/c}]}":                        `http.hosts[0].secretRef: Invalid value: "b/c": must be a mapping of fields, such as {name: ...}`,
		"{hosts: [{host: a, secretRef: {namespace: n, nam: s}}]}":     `unknown field "http.hosts[0].secretRef.nam", did you mean "name"?`,
		"{hosts: [{host: a, secretRef: {namespace: n, name: 7}}]}":    "http.hosts[0].secretRef.name: Invalid value: 7: must be text",
		"{hosts: [{host: a, secretRef: {namespace: n, name: null}}]}": "http.hosts[0].secretRef.name: Required value: write a value",
		"{hosts: [{host: a, secretRef: {name: s}}]}":                  `http.hosts[0].secretRef.namespace: Invalid value: ""`,
		"{hosts: [{host: a, addresses: [10.0.0.1]}]}":                 `http.hosts[0].addresses[0]: Invalid value: "10.0.0.1"`,
		"{requests: 1001}":                                            "http.requests: Invalid value: 1001: must be between 1 and 1000",
		"{requests: 0}":                                               "http.requests: Invalid value: 0: must be between 1 and 1000",
		"{requests: 1.5}":                                             "http.requests: Invalid value: 1.5: must be a whole number",
		"{requests: }":                                                "http.requests: Required value: write a value, or remove the line",
		"{requestsPerSecond: 0}":                                      "http.requestsPerSecond: Invalid value: 0: must be between 0.1 and 10000",
		"{requestsPerSecond: x}":                                      `http.requestsPerSecond: Invalid value: "x": must be a number`,
		"{host: []}":                                                  `unknown field "http.host", did you mean "http.hosts"?`,
	} {
		t.Run(text, func(t *testing.T) {
			_, err := c.ReadPolicy("p", versioned("http: "+text))
			wantProblems(t, err, want)
			if hosts, ok := strings.CutPrefix(text, "{hosts: "); ok {
				_, err = config.Read(write(t, "{allow: {http: {p: "+hosts+"}}"), sections()...)
				wantProblems(t, err, strings.ReplaceAll(want, "http.hosts", "allow.http[p]"))
			}
		})
	}
	_, err := c.ReadPolicy("p", versioned("http: {hosts: [{hos: a}, {host: B}]}\nallow: [{group: [a]}]\ndryRun: 1"))
	wantProblems(t, err, `"http.hosts[0].hos"`, `"allow[0].group"`, "dryRun: ")
}

// Whoever may write a plugin may write a policy beside it.
func TestHTTPNeedsTheConfiguration(t *testing.T) {
	read := func(text, policy string) error {
		t.Helper()
		c, err := config.Read(write(t, text), sections()...)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.WithDefaults().ReadPolicy("p", versioned("http: {hosts: ["+policy+"]}"))
		return err
	}
	err := read("dryRun: true", fullHost)
	const refused = "p.yaml: http.hosts[0]: Forbidden: the host's configuration does not allow this much to the plugin: remove it, or have it allowed in the file of --config: "
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
	for _, text := range []string{
		strings.Replace(line, "{p: ", "{q: ", 1),
		"{allow: {http: {p: [{host: other}], '*': [" + fullHost + "]}}}",
		strings.Replace(line, "GET, PUT", "GET", 1), strings.Replace(line, "name: b", "name: c", 1), strings.Replace(line, "X-Key", "X-Log", 1),
		strings.Replace(line, "[private, '10.0.0.0/8']", "['10.0.0.0/8']", 1), strings.Replace(line, "http://p:1", "http://q:1", 1), strings.Replace(line, "10.0.0.1:8443", "10.0.0.2:8443", 1),
		strings.Replace(line, "scheme: https, ", "", 1) + "#",
	} {
		if text == line {
			t.Fatalf("%s is not changed", text)
		}
		err := read(text, fullHost)
		if isDefault := strings.HasSuffix(text, "#"); isDefault != (err == nil) { // https is the default
			t.Errorf("%s: %v", text, err)
		}
	}
}

// The limits of a policy are those of the configuration, unless it lowers them.
func TestLimitsAreBoundedByTheConfiguration(t *testing.T) {
	for _, c := range []struct {
		host, policy string
		requests     int
		perSecond    float32
		refused      string
	}{
		{"{}", "{}", 16, 50, ""},
		{"{}", "{requests: 16, requestsPerSecond: 50}", 16, 50, ""},
		{"{}", "{requests: 17}", 0, 0, "http.requests: Invalid value: 17: must be at most 16, the host's limit: lower it, or raise http.requests in the file of --config"},
		{"{requests: 4}", "{}", 4, 50, ""},
		{"{requestsPerSecond: 100}", "{requestsPerSecond: 99}", 16, 99, ""},
		{"{requests: 100, requestsPerSecond: 2}", "{requests: 40}", 40, 2, ""},
		{"{requests: 100, requestsPerSecond: 2}", "{requestsPerSecond: 3}", 0, 0, "http.requestsPerSecond: Invalid value: 3: must be at most 2"},
	} {
		host, err := config.Read(write(t, "http: "+c.host), sections()...)
		if err != nil {
			t.Fatal(err)
		}
		p, err := host.WithDefaults().ReadPolicy("p", versioned("http: "+c.policy))
		if c.refused != "" {
			wantProblems(t, err, c.refused)
			continue
		}
		if err != nil || settings(p).Requests != c.requests || settings(p).RequestsPerSecond != c.perSecond {
			t.Errorf("%+v: %+v, %v", c, p.Sections, err)
		}
	}
	_, err := config.Read(write(t, "http: {hosts: [{host: a}]}"), sections()...)
	wantProblems(t, err, `unknown field "http.hosts": it belongs in the policy of a plugin`) // and in allow.http by plugin
}

func TestHostsThatThePolicyLacksAreNamed(t *testing.T) {
	of := func(hosts ...contract.Host) *abi.Manifest {
		return &abi.Manifest{Controllers: []abi.Controller{{Sections: []abi.Section{{Name: contract.Name, Value: contract.Encode(hosts)}}}}}
	}
	has := &Settings{Hosts: egress.Entries{{Host: "a.b"}}, Requests: 16, RequestsPerSecond: 0.5}
	needs := missing(has, true, of(contract.Host{Host: "a.b"}, contract.Host{Host: "c.d"}))
	const hosts = "[{host: a.b, methods: [GET]}, {host: c.d, methods: [GET]}]"
	if needs.Text != "{hosts: "+hosts+", requests: 16, requestsPerSecond: 0.5}" || needs.Allow.String() != hosts || needs.Wildcard || len(has.Hosts) != 1 {
		t.Errorf("%+v of %+v", needs, has)
	}
	if p, err := unbounded().ReadPolicy("p", versioned("http: "+needs.Text)); err != nil || len(settings(p).Hosts) != 2 || settings(p).RequestsPerSecond != 0.5 {
		t.Errorf("%s is read as %+v, %v", needs.Text, p.Sections, err)
	}
	if needs := missing(newHostSettings().settings(), false, of(contract.Host{Host: "*.d", Methods: []string{"PUT"}})); needs.Text != "{hosts: [{host: '*.d', methods: [PUT]}]}" || !needs.Wildcard || needs.Value.(*Settings).Requests != 16 {
		t.Errorf("%+v", needs)
	}
	if needs := missing(has, true, of(contract.Host{Host: "*.b"})); needs.Value != nil {
		t.Errorf("%+v", needs)
	}
	if needs := missing(newHostSettings().settings(), false, of()); needs.Value != nil {
		t.Errorf("%+v", needs)
	}
}

func FuzzPolicyStaysBelowTheConfiguration(f *testing.F) {
	f.Add("{hosts: [{host: a.b, methods: [GET], addresses: [10.0.0.0/24]}], requests: 3}")
	f.Add("{hosts: [{host: '*'}]}")
	c := config.Config{Sections: sections(), Allow: config.Ceiling{Sections: map[string]map[string]config.AllowSection{
		contract.Name: {"p": egress.Entries{{Host: "*.b", Addresses: []string{"10.0.0.0/8"}}}},
	}}}.WithDefaults()
	f.Fuzz(func(t *testing.T, text string) {
		p, err := c.ReadPolicy("p", versioned("http: "+text))
		if err != nil || p.Sections[contract.Name] == nil {
			return
		}
		s := settings(p)
		for _, e := range s.Hosts {
			if !strings.HasSuffix(e.Host, ".b") && e.Host != "*.b" && e.Host != "*.b:443" && !strings.HasSuffix(e.Host, ".b:443") || e.Scheme == "http" || e.SecretRef != nil || e.Proxy != "" || len(e.Methods) > 0 && slices.ContainsFunc(e.Methods, func(m string) bool { return m != "GET" }) {
				t.Errorf("the policy allows requests by %s", e)
			}
		}
		if s.Requests < 1 || s.Requests > 16 || s.RequestsPerSecond < 0.1 || s.RequestsPerSecond > 50 {
			t.Errorf("the policy allows %+v", s)
		}
	})
}
