package config

import (
	"slices"
	"testing"
)

func TestNamespacesAreThoseOfThePolicyAndTheConfiguration(t *testing.T) {
	for name, c := range map[string]struct {
		allow  map[string]Namespaces
		policy string
		want   Namespaces
	}{
		"neither":                          {nil, "", nil},
		"the policy":                       {nil, "namespaces: [b, a]", Namespaces{"a", "b"}},
		"the configuration":                {map[string]Namespaces{"p": {"b", "a"}}, "", Namespaces{"a", "b"}},
		"both":                             {map[string]Namespaces{"p": {"a", "b"}}, "namespaces: [c, b]", Namespaces{"b"}},
		"named twice":                      {map[string]Namespaces{"p": {"a", "b", "a"}}, "namespaces: [b, b, a]", Namespaces{"a", "b"}},
		"of all plugins":                   {map[string]Namespaces{EveryPlugin: {"a"}}, "", Namespaces{"a"}},
		"of all plugins and a policy":      {map[string]Namespaces{EveryPlugin: {"a"}}, "namespaces: [a, b]", Namespaces{"a"}},
		"of this one instead of all":       {map[string]Namespaces{EveryPlugin: {"a"}, "p": {"b"}}, "", Namespaces{"b"}},
		"of another plugin":                {map[string]Namespaces{"other": {"a"}}, "", nil},
		"a policy without them is another": {map[string]Namespaces{"p": {"a"}}, "dryRun: true", Namespaces{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Config{Allow: Ceiling{Namespaces: c.allow}}.WithDefaults().ReadPolicy("p", versioned(c.policy))
			if err != nil || !slices.Equal(p.Namespaces, c.want) || (p.Namespaces == nil) != (c.want == nil) {
				t.Errorf("namespaces %v, %v, want %v", p.Namespaces, err, c.want)
			}
		})
	}
}

func TestNamespacesThatBoundNothingAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"namespaces: [c]":       "namespaces: Forbidden: the host's configuration allows the plugin none of them, but a, b: name one of these, or change allow.namespaces in the file of --config",
		"namespaces: [a]":       "namespaces: Forbidden: the host follows only the namespace b (--namespace), and the plugin may only have a: change the policy",
		"namespaces: []":        "namespaces: Required value: name a namespace, or remove the line to allow all",
		"namespaces:":           "namespaces: Required value: write a value, or remove the line for the default",
		"namespaces: [a, null]": "namespaces[1]: Required value: ",
		"namespaces: [a, B_]":   `namespaces[1]: Invalid value: "B_": must be a DNS label`,
		`namespaces: ["*"]`:     `namespaces[0]: Invalid value: "*": must be a DNS label`,
		`namespaces: [""]`:      `namespaces[0]: Invalid value: "": must be a DNS label`,
		"namespaces: b":         `namespaces: Invalid value: "b": must be a list of names, such as [name]`,
		"namespaces: {b: c}":    `namespaces: Invalid value: `,
		"namespace: b":          `unknown field "namespace", did you mean "namespaces"? namespace belongs in the file of --config`,
	} {
		t.Run(text, func(t *testing.T) {
			c := Config{Namespace: "b", Allow: Ceiling{Namespaces: map[string]Namespaces{"p": {"b", "a"}}}}.WithDefaults()
			_, err := c.ReadPolicy("p", versioned(text))
			wantProblems(t, err, "p.yaml: "+want)
		})
	}
	for text, want := range map[string]string{
		"allow: {namespaces: {p: []}}":      "allow.namespaces[p]: Required value: name a namespace",
		"allow: {namespaces: {p: }}":        "allow.namespaces[p]: Required value: name a namespace",
		"allow: {namespaces: }":             "allow.namespaces: Required value: write a value",
		"allow: {namespaces: {p: [a, B_]}}": `allow.namespaces[p][1]: Invalid value: "B_": must be a DNS label`,
		"allow: {namespaces: {p: [null]}}":  `allow.namespaces[p][0]: Invalid value: "": must be a DNS label`,
		"allow: {namespaces: {P_: [a]}}":    `allow.namespaces: Invalid value: "P_": must be the name of a plugin, or "*"`,
		"allow: {namespaces: {p: a}}":       "allow.namespaces: Invalid value: ",
		"allow: {namespaces: {p: [1]}}":     "must be a mapping from plugins to lists of namespaces, such as {name: [name]}",
		"allow: {namespaces: [a]}":          "must be a mapping from plugins to lists of namespaces, such as {name: [name]}",
		"namespaces: [a]":                   `unknown field "namespaces": namespaces belongs below allow`,
		"allow: {namespace: {p: [a]}}":      `unknown field "allow.namespace", did you mean "allow.namespaces"?`,
	} {
		t.Run(text, func(t *testing.T) {
			_, err := Read(write(t, text))
			wantProblems(t, err, want)
		})
	}
	c, err := Read(write(t, `allow: {namespaces: {"*": [a], p: [b]}}`))
	if err != nil || !slices.Equal(boundOf(c.Allow.Namespaces, "p"), Namespaces{"b"}) || !slices.Equal(boundOf(c.Allow.Namespaces, "q"), Namespaces{"a"}) {
		t.Errorf("got %+v, %v", c.Allow, err)
	}
}
