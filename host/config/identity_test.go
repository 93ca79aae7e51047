package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/thole-dev/thole/host/rights"
)

func TestServiceAccountThatTheConfigurationAllows(t *testing.T) {
	long := strings.Repeat("n", 63)
	for name, c := range map[string]struct {
		config, policy string
		want           rights.Account
	}{
		"named":                    {"{p: [a/b]}", "a/b", rights.Account{Namespace: "a", Name: "b"}},
		"one of several":           {"{p: [a/b, c/d]}", "c/d", rights.Account{Namespace: "c", Name: "d"}},
		"all of the namespace":     {"{p: [a/*]}", "a/b", rights.Account{Namespace: "a", Name: "b"}},
		"of all plugins":           {"{'*': [a/b]}", "a/b", rights.Account{Namespace: "a", Name: "b"}},
		"a name with dots":         {"{p: [a/b.c-d]}", "a/b.c-d", rights.Account{Namespace: "a", Name: "b.c-d"}},
		"the longest namespace":    {"{p: [" + long + "/*]}", long + "/b", rights.Account{Namespace: long, Name: "b"}},
		"numbers":                  {"{p: [1/2]}", "1/2", rights.Account{Namespace: "1", Name: "2"}},
		"none, where it may be":    {"{p: [a/b]}", "", rights.Account{}},
		"none, where it may not":   {"{}", "", rights.Account{}},
		"written twice":            {"{p: [a/b, a/b]}", "a/b", rights.Account{Namespace: "a", Name: "b"}},
		"by both forms":            {"{p: [a/*, a/b]}", "a/c", rights.Account{Namespace: "a", Name: "c"}},
		"its own line, not of all": {"{p: [a/b], '*': [c/d]}", "a/b", rights.Account{Namespace: "a", Name: "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			text := ""
			if c.policy != "" {
				text = "serviceAccount: " + c.policy
			}
			p, err := allowingAccounts(t, c.config).ReadPolicy("p", versioned(text))
			if err != nil || p.Account() != c.want {
				t.Errorf("got %v, %v, want %v", p.Account(), err, c.want)
			}
		})
	}
}

// allowingAccounts returns a configuration that was read from a file.
func allowingAccounts(t *testing.T, accounts string) Config {
	t.Helper()
	c, err := Read(write(t, "allow: {serviceAccounts: "+accounts+"}"))
	if err != nil {
		t.Fatal(err)
	}
	return c.WithDefaults()
}

// Whoever may write a plugin may write a policy beside it.
func TestServiceAccountNeedsTheConfiguration(t *testing.T) {
	const want = "p.yaml: serviceAccount: Forbidden: the host's configuration does not allow the plugin to act as a/b: " +
		"have it allowed in the file of --config: {allow: {serviceAccounts: {p: [a/b]}}}"
	for name, config := range map[string]string{
		"nothing":                                 "{}",
		"another plugin":                          "{q: [a/b]}",
		"another account":                         "{p: [a/c]}",
		"another namespace":                       "{p: [b/*]}",
		"a namespace whose name begins like it":   "{p: [aa/*]}",
		"an account whose name begins like it":    "{p: [a/bb]}",
		"of all plugins, and another of this one": "{p: [c/d], '*': [a/b]}",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := allowingAccounts(t, config).ReadPolicy("p", versioned("serviceAccount: a/b")); err == nil || err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
	if _, err := allowingAccounts(t, "{p: [a/*]}").ReadPolicy("p", versioned("serviceAccount: 'a/*'")); err == nil {
		t.Error("a policy names all accounts of a namespace")
	}
}

// What the error says to write allows the account, whatever the names look like in YAML.
func TestErrorOfAServiceAccountCanBePasted(t *testing.T) {
	for _, plugin := range []string{"p", "null", "true", "on", "y", "1", "0x1f", "1e3", "a-b", "0", strings.Repeat("p", 63)} {
		for _, account := range []string{"a/b", "null/true", "1/2", "0x1/1e3", "a/b.c"} {
			policy := versioned("serviceAccount: " + account)
			_, err := Config{}.WithDefaults().ReadPolicy(plugin, policy)
			if err == nil {
				t.Fatalf("%s may act as %s", plugin, account)
			}
			_, line, _ := strings.Cut(err.Error(), "--config: ")
			c, err := Read(write(t, line))
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			if p, err := c.WithDefaults().ReadPolicy(plugin, policy); err != nil || p.Account().String() != account {
				t.Errorf("%s: %v, %v", line, p.Account(), err)
			}
		}
	}
}

func TestIdentityOfThePolicyIsChecked(t *testing.T) {
	const (
		account = `": must be a service account as NAMESPACE/NAME`
		digest  = `": must be the SHA-256 of the module as sha256:<64 lower case hexadecimal digits>, as ` + "`sha256sum` prints it"
	)
	hex := strings.Repeat("0f", 32)
	invalid := func(field, value, why string) (line, want string) {
		return fmt.Sprintf("%s: %q", field, value), field + `: Invalid value: "` + value + why
	}
	cases := map[string]string{
		"serviceAccount:":        "serviceAccount: Required value: write a value, or remove the line for the default",
		"serviceAccount: [a/b]":  `serviceAccount: Invalid value: ["a/b"]: must be text: write it in quotes`,
		"serviceAccount: 3":      "serviceAccount: Invalid value: 3: must be text: write it in quotes",
		"serviceAccounts: [a/b]": `unknown field "serviceAccounts"`,
		"serviceaccount: a/b":    `unknown field "serviceaccount", did you mean "serviceAccount"?`,
		"digest:":                "digest: Required value: write a value, or remove the line for the default",
		"digest: 12":             "digest: Invalid value: 12: must be text: write it in quotes",
		"digests: x":             `unknown field "digests", did you mean "digest"?`,
	}
	for _, value := range []string{
		"b", "/", "a/", "/b", "a/b/c", "A/b", "a/B", "a/b_", "a.b/c", "a/*", "*/*", "*", "a/..", "a/b:c", "a:b/c", " a/b", "a/b ", "a b/c",
		"system:serviceaccount:a:b", strings.Repeat("n", 64) + "/b", "a/" + strings.Repeat("n", 254), "a/\u00e4",
	} {
		line, want := invalid("serviceAccount", value, account)
		cases[line] = want
	}
	for _, value := range []string{
		hex, "sha256:", "sha256:" + hex[1:], "sha256:" + hex + "0", "sha256:" + strings.ToUpper(hex), "SHA256:" + hex, "sha512:" + hex + hex,
		"sha256:" + strings.Repeat("g", 64), " sha256:" + hex, "sha256:" + hex + " ", "sha256-" + hex, "p@sha256:" + hex,
	} {
		line, want := invalid("digest", value, digest)
		cases[line] = want
	}
	c := allowingAccounts(t, "{p: [a/*]}")
	for text, want := range cases {
		_, err := c.ReadPolicy("p", versioned(text))
		wantProblems(t, err, "p.yaml: "+want)
	}
	_, err := c.ReadPolicy("p", versioned(fmt.Sprintf("digest: \"sha256:%s\\n\"", hex)))
	wantProblems(t, err, "digest: Invalid value")
}

// An empty text is what is left of a template that was given no value.
func TestEmptyIdentityIsRefused(t *testing.T) {
	for _, name := range []string{"serviceAccount", "digest"} {
		_, err := Config{}.WithDefaults().ReadPolicy("p", versioned(name+`: ""`))
		wantProblems(t, err, "p.yaml: "+name+": Required value: write a value, or remove the line for the default")
	}
}

func TestPinnedDigestIsThatOfTheModuleAlone(t *testing.T) {
	one, other := strings.Repeat("0f", 32), strings.Repeat("f0", 32)
	pinned, err := Config{}.WithDefaults().ReadPolicy("p", versioned("digest: sha256:"+one))
	if err != nil {
		t.Fatal(err)
	}
	if !pinned.Pins(one) || pinned.Pins(other) || pinned.Pins("") || pinned.Pins(one[:12]) || pinned.Pins(strings.ToUpper(one)) {
		t.Errorf("%+v pins another module", pinned)
	}
	if free := (Policy{}); !free.Pins(one) || !free.Pins(other) {
		t.Error("a policy without a digest pins a module")
	}
	for _, text := range []string{"", "digest: sha256:" + other} {
		if p, err := (Config{}).WithDefaults().ReadPolicy("p", versioned(text)); err != nil || p.Equal(pinned) {
			t.Errorf("%q is equal to a policy that pins another module: %v", text, err)
		}
	}
}

func TestServiceAccountsOfTheConfigurationAreChecked(t *testing.T) {
	const aMapping = "must be a mapping from plugins to lists of service accounts, such as {name: [NAMESPACE/NAME]}"
	for accounts, want := range map[string]string{
		"{p: []}":                `allow.serviceAccounts[p]: Required value: name a service account, or remove the line`,
		"{p: }":                  `allow.serviceAccounts[p]: Required value: name a service account`,
		"":                       "allow.serviceAccounts: Required value: write a value",
		"{p: [null]}":            `allow.serviceAccounts[p][0]: Invalid value: "": must be a service account as NAMESPACE/NAME, or NAMESPACE/* for all of a namespace`,
		"{p: [a/b, b]}":          `allow.serviceAccounts[p][1]: Invalid value: "b": must be a service account`,
		"{p: ['*']}":             `allow.serviceAccounts[p][0]: Invalid value: "*": must be`,
		"{p: ['*/*']}":           `allow.serviceAccounts[p][0]: Invalid value: "*/*": must be`,
		"{p: ['*/b']}":           `allow.serviceAccounts[p][0]: Invalid value: "*/b": must be`,
		"{p: [/*]}":              `allow.serviceAccounts[p][0]: Invalid value: "/*": must be`,
		"{p: [A/*]}":             `allow.serviceAccounts[p][0]: Invalid value: "A/*": must be`,
		"{p: [a/b*]}":            `allow.serviceAccounts[p][0]: Invalid value: "a/b*": must be`,
		"{p: [a/*/*]}":           `allow.serviceAccounts[p][0]: Invalid value: "a/*/*": must be`,
		"{P_: [a/b]}":            `allow.serviceAccounts: Invalid value: "P_": must be the name of a plugin, or "*" for all that are not named`,
		"{'': [a/b]}":            `allow.serviceAccounts: Invalid value: "": must be the name of a plugin`,
		"{'../p': [a/b]}":        `allow.serviceAccounts: Invalid value: "../p": must be the name of a plugin`,
		"{p.q: [a/b]}":           `allow.serviceAccounts: Invalid value: "p.q": must be the name of a plugin`,
		`{"p\n": [a/b]}`:         `allow.serviceAccounts: Invalid value: "p\n": must be the name of a plugin`,
		"{p: a/b}":               "allow.serviceAccounts: Invalid value: " + `{"p":"a/b"}: ` + aMapping,
		"{p: [1]}":               "allow.serviceAccounts: Invalid value: " + `{"p":[1]}: ` + aMapping,
		"{p: {a: b}}":            aMapping,
		"{p: [{a: b}]}":          aMapping,
		"[a/b]":                  `allow.serviceAccounts: Invalid value: ["a/b"]: ` + aMapping,
		"a/b":                    `allow.serviceAccounts: Invalid value: "a/b": ` + aMapping,
		"{p: [a/b], p: [a/c]}":   `key "p" already set in map`,
		"{p: [B], q: [], R: []}": "allow.serviceAccounts[q]: Required value",
	} {
		_, err := Read(write(t, "allow: {serviceAccounts: "+accounts+"}"))
		wantProblems(t, err, want)
	}
	for text, want := range map[string]string{
		"serviceAccounts: {p: [a/b]}":         `unknown field "serviceAccounts": serviceAccounts belongs below allow`,
		"serviceAccount: a/b":                 `unknown field "serviceAccount"`,
		"allow: {serviceAccount: {p: [a/b]}}": `unknown field "allow.serviceAccount", did you mean "allow.serviceAccounts"?`,
		"digest: x":                           `unknown field "digest"`,
	} {
		_, err := Read(write(t, text))
		wantProblems(t, err, want)
	}
}
