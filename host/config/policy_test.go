package config

import (
	"errors"
	"slices"
	"testing"
	"time"
)

func TestPolicyThatAllowsMoreThanTheConfigurationIsRefused(t *testing.T) {
	narrow := Config{Limits: Limits{MemoryMiB: 32, WritesPerSecond: 2.5}}.WithDefaults()
	for text, want := range map[string]string{
		"crossNamespace: true":            `crossNamespace: Forbidden: the host's configuration does not allow it: add "configsync" to allow.crossNamespace in the file of --config`,
		"isolation: pooled":               `isolation: Forbidden: the host's configuration does not allow "pooled": add "configsync" to allow.pooled in the file of --config`,
		"isolation: none":                 `isolation: Unsupported value: "none": supported values: "namespace", "pooled"`,
		"limits: {memoryMiB: 33}":         "limits.memoryMiB: Invalid value: 33: must be at most 32, the host's limit: lower it, or raise limits.memoryMiB in the file of --config",
		"limits: {timeout: 11s}":          `limits.timeout: Invalid value: "11s": must be at most 10s, the host's limit`,
		"limits: {writesPerSecond: 2.6}":  "limits.writesPerSecond: Invalid value: 2.6: must be at most 2.5, the host's limit",
		"limits: {concurrency: 9}":        "limits.concurrency: Invalid value: 9: must be at most 8, the host's limit",
		"crossNamespaces: true":           `unknown field "crossNamespaces", did you mean "crossNamespace"?`,
		"crossNamespace: maybe":           `crossNamespace: Invalid value: "maybe": must be true or false`,
		"probation: 0s":                   `unknown field "probation": it belongs in the file of --config`,
		"allow: {crossNamespace: [a]}":    `unknown field "allow": it belongs in the file of --config`,
		"limits: {writesPerSecond: 1e-9}": "limits.writesPerSecond: Invalid value: 1e-09: must be between 0.1 and 100000",
	} {
		t.Run(text, func(t *testing.T) {
			_, err := narrow.ReadPolicy("configsync", []byte(text))
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
		[]byte("crossNamespace: true\nlimits: {memoryMiB: 65, timeout: 11s, concurrency: 1001}"))
	wantProblems(t, err, "crossNamespace: ", "limits.memoryMiB: ", "limits.timeout: ", "limits.concurrency: ")
}

func TestPolicyLowersOnlyTheLimitsThatItNames(t *testing.T) {
	c := Config{Limits: Limits{MemoryMiB: 32, WritesPerSecond: 2.5}}.WithDefaults()
	p, err := c.ReadPolicy("p", []byte("limits: {memoryMiB: 16, timeout: 2s, fuel: 10000000, intents: 256}"))
	if err != nil {
		t.Fatal(err)
	}
	want := c.Limits
	want.MemoryMiB, want.Timeout.Duration, want.Fuel = 16, 2*time.Second, 10_000_000
	if p.Limits != want {
		t.Errorf("limits %+v\nwant   %+v", p.Limits, want)
	}
}

func TestCrossNamespaceNeedsThePolicyAndTheConfiguration(t *testing.T) {
	const asked = "crossNamespace: true"
	for name, c := range map[string]struct {
		allowed []string
		text    string
		refused bool
		crosses bool
	}{
		"allowed and asked for":          {[]string{"other", "p"}, asked, false, true},
		"allowed to all and asked for":   {[]string{EveryPlugin}, asked, false, true},
		"allowed and not asked for":      {[]string{EveryPlugin}, "", false, false},
		"allowed and set to false":       {[]string{"p"}, "crossNamespace: false", false, false},
		"allowed to another plugin only": {[]string{"other"}, asked, true, false},
		"not allowed":                    {nil, asked, true, false},
		"neither":                        {nil, "", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Config{Allow: Allow{CrossNamespace: c.allowed}}.WithDefaults().ReadPolicy("p", []byte(c.text))
			if (err != nil) != c.refused || p.CrossNamespace != c.crosses {
				t.Errorf("crossNamespace %v, error %v", p.CrossNamespace, err)
			}
		})
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
			p, err := Config{Allow: Allow{Pooled: c.allowed}}.WithDefaults().ReadPolicy("p", []byte(c.text))
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
			p, err := Config{DryRun: c.host}.WithDefaults().ReadPolicy("p", []byte(c.policy))
			if err != nil || p.DryRun != c.want {
				t.Errorf("dryRun %v, %v, want %v", p.DryRun, err, c.want)
			}
		})
	}
}

func TestEmptyPolicyIsTheNarrowest(t *testing.T) {
	c := Config{Allow: Allow{CrossNamespace: []string{EveryPlugin}}}.WithDefaults()
	p, err := c.ReadPolicy("p", nil)
	if want := (Policy{Limits: c.Limits}); err != nil || !p.Equal(want) {
		t.Errorf("got %+v, %v\nwant %+v", p, err, want)
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
			p, err := Config{}.WithDefaults().ReadPolicy("p", []byte(text))
			if err != nil || string(p.Config) != want {
				t.Errorf("got %s, %v, want %s", p.Config, err, want)
			}
		})
	}
}

func TestEqualPoliciesAreWrittenInDifferentWays(t *testing.T) {
	c := Config{}.WithDefaults()
	read := func(text string) Policy {
		p, err := c.ReadPolicy("p", []byte(text))
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
	f.Add("crossNamespace: true\nlimits: {memoryMiB: 16, timeout: 2s}\nconfig: {a: [1]}")
	f.Add("limits: {fuel: 1e20, writesPerSecond: \"x\"}\nunknown: 1")
	f.Add("--- # a\n---\n&a [*a]")
	f.Add("namespaces: [a, c, \"\"]")
	c := Config{Allow: Allow{CrossNamespace: []string{"other"}, Namespaces: map[string]Namespaces{"p": {"a", "b"}}}, DryRun: true}.WithDefaults()
	f.Fuzz(func(t *testing.T, text string) {
		p, err := c.ReadPolicy("p", []byte(text))
		if err != nil {
			return
		}
		outside := func(name string) bool { return name != "a" && name != "b" }
		if p.CrossNamespace || !p.DryRun || len(p.Namespaces) == 0 || slices.ContainsFunc(p.Namespaces, outside) {
			t.Errorf("the policy allows more than the configuration: %+v", p)
		}
		ceilings := c.Limits.numbers()
		for i, n := range p.Limits.numbers() {
			if n.value < n.minimum || n.value > ceilings[i].value {
				t.Errorf("%s: %v is not between %v and %v", n.path, n.value, n.minimum, ceilings[i].value)
			}
		}
	})
}
