package config

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/rights"
)

// versioned returns a policy with its apiVersion.
func versioned(text string) []byte {
	if strings.HasPrefix(text, "{") {
		return []byte(`{"apiVersion": "thole.dev/v1alpha1", ` + text[1:])
	}
	return []byte("apiVersion: thole.dev/v1alpha1\n" + text)
}

func TestPolicyThatAllowsMoreThanTheConfigurationIsRefused(t *testing.T) {
	narrow := Config{Limits: Limits{MemoryMiB: 32, WritesPerSecond: 2.5}}.WithDefaults()
	for text, want := range map[string]string{
		"isolation: pooled":               `isolation: Forbidden: the host's configuration does not allow "pooled": add "configsync" to allow.pooled in the file of --config`,
		"isolation: none":                 `isolation: Unsupported value: "none": supported values: "namespace", "pooled"`,
		"limits: {memoryMiB: 33}":         "limits.memoryMiB: Invalid value: 33: must be at most 32, the host's limit: lower it, or raise limits.memoryMiB in the file of --config",
		"limits: {timeout: 11s}":          `limits.timeout: Invalid value: "11s": must be at most 10s, the host's limit`,
		"limits: {writesPerSecond: 2.6}":  "limits.writesPerSecond: Invalid value: 2.6: must be at most 2.5, the host's limit",
		"limits: {concurrency: 9}":        "limits.concurrency: Invalid value: 9: must be at most 8, the host's limit",
		"dryRuns: true":                   `unknown field "dryRuns", did you mean "dryRun"?`,
		"dryRun: maybe":                   `dryRun: Invalid value: "maybe": must be true or false`,
		"probation: 0s":                   `unknown field "probation": it belongs in the file of --config`,
		"allow: {namespaces: {a: [b]}}":   `allow: Invalid value: {"namespaces":{"a":["b"]}}: must be a list of entries, such as {groups: `,
		"limits: {writesPerSecond: 1e-9}": "limits.writesPerSecond: Invalid value: 1e-09: must be between 0.1 and 100000",
	} {
		t.Run(text, func(t *testing.T) {
			_, err := narrow.ReadPolicy("configsync", versioned(text))
			wantProblems(t, err, "configsync.yaml: "+want)
			var step interface{ LoadStep() string }
			if !errors.As(err, &step) || step.LoadStep() != "policy" {
				t.Errorf("%v is not a failure of the step policy", err)
			}
		})
	}
}

func TestReadPolicyReportsEveryProblem(t *testing.T) {
	_, err := Config{}.WithDefaults().ReadPolicy("p",
		versioned("allow: [{groups: [apps], kinds: [Deployment], verbs: [get]}]\nlimits: {memoryMiB: 65, timeout: 11s, concurrency: 1001}"))
	wantProblems(t, err, "allow[0]: Forbidden", "limits.memoryMiB: ", "limits.timeout: ", "limits.concurrency: ")
}

func TestPolicyLowersOnlyTheLimitsThatItNames(t *testing.T) {
	c := Config{Limits: Limits{MemoryMiB: 32, WritesPerSecond: 2.5}}.WithDefaults()
	p, err := c.ReadPolicy("p", versioned("limits: {memoryMiB: 16, timeout: 2s, fuel: 10000000, intents: 256}"))
	if err != nil {
		t.Fatal(err)
	}
	want := c.Limits
	want.MemoryMiB, want.Timeout.Duration, want.Fuel = 16, 2*time.Second, 10_000_000
	if p.Limits != want {
		t.Errorf("limits %+v\nwant   %+v", p.Limits, want)
	}
}

func TestPoolingNeedsThePolicyAndTheConfiguration(t *testing.T) {
	for name, c := range map[string]struct {
		allowed []string
		text    string
		pooled  bool
	}{
		"allowed and asked for":        {[]string{"other", "p"}, "isolation: pooled", true},
		"allowed to all and asked for": {[]string{EveryPlugin}, "isolation: pooled", true},
		"allowed and not asked for":    {[]string{EveryPlugin}, "", false},
		"allowed and the default":      {[]string{"p"}, "isolation: namespace", false},
		"neither":                      {nil, "isolation: namespace", false},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Config{Allow: Ceiling{Pooled: c.allowed}}.WithDefaults().ReadPolicy("p", versioned(c.text))
			if err != nil || p.Sandbox().PoolNamespaces != c.pooled {
				t.Errorf("pooled %v, error %v", p.Sandbox().PoolNamespaces, err)
			}
		})
	}
}

func TestDryRunOfThePolicyOrTheConfiguration(t *testing.T) {
	for name, c := range map[string]struct {
		host   bool
		policy string
		want   bool
	}{
		"neither":                         {false, "", false},
		"the policy":                      {false, "dryRun: true", true},
		"the configuration":               {true, "", true},
		"a policy cannot turn it off":     {true, "dryRun: false", true},
		"set to false where the host has": {false, "dryRun: false", false},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Config{DryRun: c.host}.WithDefaults().ReadPolicy("p", versioned(c.policy))
			if err != nil || p.DryRun != c.want {
				t.Errorf("dryRun %v, %v, want %v", p.DryRun, err, c.want)
			}
		})
	}
}

func TestEmptyPolicyIsTheNarrowest(t *testing.T) {
	c := Config{Allow: Ceiling{Entries: map[string]rights.Entries{EveryPlugin: rights.Everything()}}}.WithDefaults()
	for _, text := range []string{"", "# nothing\n", "{}"} {
		p, err := c.ReadPolicy("p", []byte(text))
		if want := (Policy{Limits: c.Limits}); err != nil || !p.Equal(want) {
			t.Errorf("%q: got %+v, %v\nwant %+v", text, p, err, want)
		}
	}
}

func TestConfigOfThePolicyIsPassedAsJSON(t *testing.T) {
	for text, want := range map[string]string{
		"config: {a: [1], b: {c: null}}":           `{"a":[1],"b":{"c":null}}`,
		"config: {limits: {fuel: 0}, namespace: }": `{"limits":{"fuel":0},"namespace":null}`,
		"config: 9007199254740993":                 "9007199254740993", // 2^53 + 1 is not rounded
		"config: text":                             `"text"`,
	} {
		t.Run(text, func(t *testing.T) {
			p, err := Config{}.WithDefaults().ReadPolicy("p", versioned(text))
			if err != nil || string(p.Config) != want {
				t.Errorf("got %s, %v, want %s", p.Config, err, want)
			}
		})
	}
}

func TestEqualPoliciesAreWrittenInDifferentWays(t *testing.T) {
	c := Config{}.WithDefaults()
	read := func(text string) Policy {
		p, err := c.ReadPolicy("p", versioned(text))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	a := read("dryRun: true\nconfig: {a: 1, b: 2} # a comment")
	if b := read(`{"config": {"b": 2, "a": 1}, "dryRun": true}`); !a.Equal(b) {
		t.Errorf("%+v and %+v differ", a, b)
	}
	for _, text := range []string{"dryRun: true", "config: {a: 1, b: 2}", "dryRun: true\nconfig: {a: 1, b: 2}\nlimits: {fuel: 1e6}"} {
		if a.Equal(read(text)) {
			t.Errorf("a policy of %q is equal to another one", text)
		}
	}
}

func FuzzPolicyStaysBelowTheConfiguration(f *testing.F) {
	f.Add("apiVersion: thole.dev/v1alpha1\nallow: [{groups: [''], kinds: [Pod], verbs: [get], namespaces: [a]}]\nlimits: {memoryMiB: 16, timeout: 2s}\nconfig: {a: [1]}")
	f.Add("limits: {fuel: 1e20, writesPerSecond: \"x\"}\nunknown: 1")
	f.Add("--- # a\n---\n&a [*a]")
	f.Add("namespaces: [a, c, \"\"]")
	f.Add("apiVersion: thole.dev/v1alpha1\nallow: [{groups: ['*'], kinds: ['*'], verbs: ['*'], namespaces: ['*']}]")
	f.Add("apiVersion: thole.dev/v1alpha1\nserviceAccount: a/b\ndigest: sha256:0")
	f.Add("apiVersion: thole.dev/v1alpha1\nmail: {to: [{host: x}, {host: y}], size: 1}")
	ceiling := rights.Entries{{Groups: []string{""}, Kinds: []string{"Pod"}, Verbs: []string{"get", "list"}, Namespaces: []string{"a", "b"}}}
	c := Config{Allow: Ceiling{
		Entries: map[string]rights.Entries{"p": ceiling}, Namespaces: map[string]Namespaces{"p": {"a", "b"}}, ServiceAccounts: map[string][]string{"p": {"a/b"}},
		Sections: map[string]map[string]AllowSection{"mail": {"p": letters{{"x"}}}},
	}, DryRun: true, Sections: withMail().Sections}.WithDefaults()
	f.Fuzz(func(t *testing.T, text string) {
		p, err := c.ReadPolicy("p", versioned(text))
		if err != nil {
			return
		}
		outside := func(name string) bool { return name != "a" && name != "b" }
		for _, verb := range rights.Verbs() {
			for _, kind := range []abi.Kind{{APIVersion: "v1", Kind: "Pod"}, {APIVersion: "v1", Kind: "Secret"}, {APIVersion: "apps/v1", Kind: "Pod"}} {
				r := p.Allow.Reach(kind, "", verb)
				within := kind == abi.Kind{APIVersion: "v1", Kind: "Pod"} && (verb == "get" || verb == "list")
				if r.All || r.Own || r.Cluster || slices.ContainsFunc(r.Named, func(n string) bool { return !within || outside(n) }) {
					t.Errorf("the policy allows %s of %s in %+v", verb, kind, r)
				}
			}
		}
		if !p.DryRun || len(p.Namespaces) == 0 || slices.ContainsFunc(p.Namespaces, outside) {
			t.Errorf("the policy allows more than the configuration: %+v", p)
		}
		if a := p.Account(); a != (rights.Account{}) && a != (rights.Account{Namespace: "a", Name: "b"}) || p.ServiceAccount != "" && a == (rights.Account{}) {
			t.Errorf("the plugin may act as %v", a)
		}
		for name, s := range p.Sections {
			if slices.ContainsFunc(s.(*mail).To, func(l letter) bool { return l.Host != "x" }) {
				t.Errorf("the policy allows the %s %+v", name, s)
			}
		}
		ceilings := c.Limits.numbers()
		for i, n := range p.Limits.numbers() {
			if n.value < n.minimum || n.value > ceilings[i].value {
				t.Errorf("%s: %v is not between %v and %v", n.path, n.value, n.minimum, ceilings[i].value)
			}
		}
	})
}

func TestLogLevelOfAPolicy(t *testing.T) {
	c := Config{}.WithDefaults()
	read := func(level string) (Policy, error) {
		return c.ReadPolicy("p", []byte("apiVersion: thole.dev/v1alpha1\nlogLevel: "+level))
	}
	debug, err := read("debug")
	if err != nil || debug.LogLevel != "debug" {
		t.Errorf("%q, %v", debug.LogLevel, err)
	}
	if info, _ := read("info"); !debug.Equal(info) {
		t.Error("another level is another revision of the plugin")
	}
	for _, level := range []string{"Debug", "off", "verbose", `" "`, "5"} {
		if _, err := read(level); err == nil || !strings.Contains(err.Error(), "logLevel") {
			t.Errorf("%s: %v", level, err)
		}
	}
}
