package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kyaml "sigs.k8s.io/yaml"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/rights"
)

// mail is the section of a capability.
type mail struct {
	From string  `json:"from,omitempty"`
	Size int64   `json:"size,omitempty"`
	To   letters `json:"to,omitempty"`
}

type letter struct {
	Host string `json:"host,omitempty"`
}

type letters []letter

func (letters) EntryExample() string { return "such as {host: a}" }

func (all letters) String() string {
	var texts []string
	for _, l := range all {
		texts = append(texts, "{host: "+l.Host+"}")
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

func (all letters) Problems(at *field.Path) (problems []error) {
	for i, l := range all {
		if l.Host == "nowhere" {
			problems = append(problems, field.Invalid(at.Index(i).Child("host"), l.Host, "must be somewhere"))
		}
	}
	return problems
}

func (m *mail) Problems(at *field.Path, plugin string, ceiling Ceiling) (problems []error) {
	if m.From == "nobody" {
		return []error{field.Invalid(at.Child("from"), m.From, "must be somebody")}
	}
	allowed, all := ceiling.SectionOf("mail", plugin)
	most, _ := allowed.(letters)
	for i, l := range m.To {
		if !all && !slices.Contains(most, l) {
			problems = append(problems, NotAllowed(at.Child("to").Index(i), plugin, "mail", letters{l}))
		}
	}
	return problems
}

func (m *mail) Secrets() (all []rights.SecretRef) {
	for _, l := range m.To {
		all = append(all, rights.SecretRef{Namespace: "mail", Name: l.Host})
	}
	return all
}

// Waiting lets as many calls wait as there are letters.
func (m *mail) Waiting() int { return len(m.To) }

// missingMail returns the mail of a manifest, whose sections have the host of a letter, or "*".
func missingMail(has PolicySection, _ bool, m *abi.Manifest) (missing MissingSection) {
	own := *has.(*mail)
	for _, c := range m.Controllers {
		if l := (letter{string(c.Section("mail"))}); l.Host != "" && !slices.Contains(own.To, l) {
			own.To = append(slices.Clip(own.To), l)
			missing = MissingSection{Value: &own, Text: fmt.Sprintf("{to: %s}", own.To), Allow: own.To, Wildcard: missing.Wildcard || l.Host == "*"}
		}
	}
	return missing
}

// office is the section of a capability in the configuration.
type office struct {
	Desks int     `json:"desks,omitempty"`
	Doors letters `json:"doors,omitempty"`
}

func (o *office) Problems(at *field.Path) (problems []error) {
	if o.Desks < 1 {
		problems = append(problems, field.Invalid(at.Child("desks"), o.Desks, "must be 1 or more"))
	}
	return problems
}

// withMail is a host with that capability and others.
func withMail() Config {
	return Config{Sections: []Section{
		{Name: "mail", New: func() PolicySection { return &mail{} }, Allow: letters(nil), Missing: missingMail},
		{Name: "post", New: func() PolicySection { return &mail{} }},
		{Name: "office", Config: func() HostSection { return &office{Desks: 3, Doors: letters{{"front"}}} }},
	}}.WithDefaults()
}

func TestSectionsOfCapabilitiesAreInTheConfiguration(t *testing.T) {
	sections := withMail().Sections
	for text, want := range map[string]*office{
		"":                                 {3, letters{{"front"}}},
		"office:":                          {3, letters{{"front"}}},
		"office: {desks: 7}":               {7, letters{{"front"}}},
		"office: {doors: [{host: back}]}":  {3, letters{{"back"}}},
		"office: {doors: []}\ncacheMiB: 9": {3, letters{}},
	} {
		c, err := Read(write(t, text), sections...)
		if err != nil {
			t.Fatal(err)
		}
		c = c.WithDefaults()
		if got := c.Values["office"]; len(c.Values) != 1 || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
		printed, err := kyaml.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Read(write(t, string(printed)), sections...)
		if err != nil || text != "office: {doors: []}\ncacheMiB: 9" && !reflect.DeepEqual(again.Values, c.Values) {
			t.Errorf("%v: %+v\nwant\n%+v\n%s", err, again.Values, c.Values, printed)
		}
	}
	for text, want := range map[string]string{
		"office: x":                     `office: Invalid value: "x": must be a mapping of fields, such as {desks: ...}`,
		"office: {desk: 1}":             `unknown field "office.desk", did you mean "office.desks"?`,
		"office: {desks: many}":         `office.desks: Invalid value: "many": must be a whole number`,
		"office: {desks: 0}":            `office.desks: Invalid value: 0: must be 1 or more`,
		"office: {doors: [{hots: a}]}":  `unknown field "office.doors[0].hots"`,
		"offices: {}":                   `unknown field "offices", did you mean "office"?`,
		"office: {desks: 0}\nlisten: x": `listen: Invalid value: "x"`,
	} {
		_, err := Read(write(t, text), sections...)
		wantProblems(t, err, want)
	}
	_, err := withMail().ReadPolicy("p", versioned("office: {}"))
	wantProblems(t, err, `unknown field "office": it belongs in the file of --config`)
}

func TestSectionsOfCapabilitiesAreInThePolicy(t *testing.T) {
	c := withMail()
	c.Allow = c.Allow.WithAllSections()
	text := versioned("mail: {from: a, size: 9007199254740993, to: [{host: x}, {host: w}]}\nlimits: {intents: 7}\npost: {to: [{host: x}, {host: z}]}")
	p, err := c.ReadPolicy("p", text)
	want := map[string]PolicySection{"mail": &mail{From: "a", Size: 9007199254740993, To: letters{{"x"}, {"w"}}}, "post": &mail{To: letters{{"x"}, {"z"}}}}
	if err != nil || !reflect.DeepEqual(p.Sections, want) || p.Limits.Intents != 7 {
		t.Fatalf("%+v, %v", p, err)
	}
	if got := p.Secrets(); !reflect.DeepEqual(got, []rights.SecretRef{{Namespace: "mail", Name: "x"}, {Namespace: "mail", Name: "w"}, {Namespace: "mail", Name: "z"}}) {
		t.Errorf("Secrets: %v", got)
	}
	if l := p.Sandbox(); l.Waiting != 4 {
		t.Errorf("%+v", l)
	}
	many := p
	many.Limits.Instances = maxInstances - 2
	if l := many.Sandbox(); l.Waiting != 2 || l.Validate() != nil {
		t.Errorf("%+v", l)
	}
	other, err := c.ReadPolicy("p", versioned("mail: {from: b}"))
	if err != nil || p.Equal(other) {
		t.Errorf("policies with other sections are equal: %v", err)
	}
	p.APIVersion = c.APIVersion
	printed, err := kyaml.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := c.ReadPolicy("p", printed); err != nil || !again.Equal(p) {
		t.Errorf("%v: %+v\nwant\n%+v\n%s", err, again, p, printed)
	}
}

func TestSectionsThatAreNotValidAreRefused(t *testing.T) {
	c := withMail()
	for text, want := range map[string]string{
		"mail: x":                   `mail: Invalid value: "x": must be a mapping of fields, such as {from: ...}`,
		"mail: {fro: a}":            `unknown field "mail.fro", did you mean "mail.from"?`,
		"mail: {from: 5}":           `mail.from: Invalid value: 5: must be text`,
		"mail: {from: ''}":          `mail.from: Required value`,
		"mail: {size: 1.5}":         `mail.size: Invalid value: 1.5: must be a whole number`,
		"mail: {to: x}":             `mail.to: Invalid value: "x": must be a list of entries, such as {host: a}`,
		"mail: {to: [x]}":           `mail.to[0]: Invalid value: "x": must be an entry, such as {host: a}`,
		"mail: {to: [{hots: a}]}":   `unknown field "mail.to[0].hots"`,
		"mail: {from: nobody}":      `mail.from: Invalid value: "nobody": must be somebody`,
		"mail: {to: [{host: a.b}]}": `mail.to[0]: Forbidden: the host's configuration does not allow this much to the plugin`,
		"mails: {}":                 `unknown field "mails", did you mean "mail"?`,
		"from: a":                   `unknown field "from": from belongs below mail`,
		"mail: {}\nmail: {}":        `key "mail" already set in map`,
		"post: {fro: a}\nlimit: {}": `unknown field "post.fro", did you mean "post.from"?`,
	} {
		t.Run(text, func(t *testing.T) {
			_, err := c.ReadPolicy("p", versioned(text))
			wantProblems(t, err, want)
			if n := strings.Count(text, "\n"); err != nil && !strings.Contains(err.Error(), "already set") && strings.Count(err.Error(), "\n") != n {
				t.Errorf("%d problems are reported: %v", strings.Count(err.Error(), "\n")+1, err)
			}
		})
	}
	for text, want := range map[string]string{"mail: {}": `unknown field "mail"`} {
		_, err := Config{}.WithDefaults().ReadPolicy("p", versioned(text))
		wantProblems(t, err, want) // of a host without the capability
	}
	_, err := c.ReadPolicy("p", versioned("mail: {fro: a}\nallow: [{group: [a]}]\ndryRun: 1"))
	wantProblems(t, err, `"mail.fro"`, `"allow[0].group"`, "dryRun: ")
	_, err = Read(write(t, "post: {}"), c.Sections...)
	wantProblems(t, err, `unknown field "post": it belongs in the policy of a plugin`)
	_, err = Read(write(t, "mail: {}"), c.Sections...)
	wantProblems(t, err, `unknown field "mail": mail belongs below allow`)
	_, err = Read(write(t, "policies: {p: {apiVersion: thole.dev/v1alpha1, mail: {fro: a}}}"), c.Sections...)
	wantProblems(t, err, `policies.p: unknown field "mail.fro"`)
	if _, err := Read(write(t, "policies: {p: {apiVersion: thole.dev/v1alpha1, mail: {from: a}}}"), c.Sections...); err != nil {
		t.Error(err)
	}
}

func TestSectionsOfAllowThatAreNotValidAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"[a]":                    `allow.mail: Invalid value: ["a"]: must be a mapping from plugins to lists of entries, such as {host: a}`,
		"{p: x}":                 `allow.mail[p]: Invalid value: "x": must be a list of entries, such as {host: a}`,
		"{p: [x]}":               `allow.mail[p][0]: Invalid value: "x": must be an entry, such as {host: a}`,
		"{p: [{hos: a}]}":        `unknown field "allow.mail[p][0].hos", did you mean "host"?`,
		"{p: [{host: 5}]}":       "allow.mail[p][0].host: Invalid value: 5: must be text",
		"{p: []}":                "allow.mail[p]: Required value: write an entry, or remove the line",
		"{p: [{host: nowhere}]}": `allow.mail[p][0].host: Invalid value: "nowhere": must be somewhere`,
		"{P_: [{host: a}]}":      `allow.mail: Invalid value: "P_": must be the name of a plugin, or "*"`,
	} {
		_, err := Read(write(t, "allow: {mail: "+text+"}"), withMail().Sections...)
		wantProblems(t, err, want)
	}
	_, err := Read(write(t, "allow: {post: {p: [{host: a}]}}"), withMail().Sections...)
	wantProblems(t, err, `unknown field "allow.post"`) // which has no such field
	_, err = Read(write(t, "allow: {mail: {p: [{host: a}]}}"))
	wantProblems(t, err, `unknown field "allow.mail"`) // of a host without the capability
	_, err = Read(write(t, "allow: {mail: {p: [{host: a}]}, pooled: 1, entires: {}}\ndryRun: 1"), withMail().Sections...)
	wantProblems(t, err, "allow.pooled: ", `"allow.entires"`, "dryRun: ")
}

// Whoever may write a plugin may write a policy beside it.
func TestSectionsNeedTheConfiguration(t *testing.T) {
	read := func(text string) (Config, error) {
		t.Helper()
		c, err := Read(write(t, text), withMail().Sections...)
		if err != nil {
			t.Fatal(err)
		}
		c = c.WithDefaults()
		_, err = c.ReadPolicy("p", versioned("mail: {to: [{host: x}]}"))
		return c, err
	}
	_, err := read("dryRun: true")
	const refused = "p.yaml: mail.to[0]: Forbidden: the host's configuration does not allow this much to the plugin: remove it, or have it allowed in the file of --config: "
	if err == nil || !strings.HasPrefix(err.Error(), refused) {
		t.Fatal(err)
	}
	line := strings.TrimPrefix(err.Error(), refused)
	for text, allowed := range map[string]bool{
		line: true, strings.Replace(line, "{p: ", "{'*': ", 1): true, strings.Replace(line, "{p: ", "{q: ", 1): false,
		"allow: {mail: {p: [{host: v}], '*': [{host: x}]}}": false, "allow: {mail: {p: [{host: v}, {host: x}]}, pooled: [p]}": true,
	} {
		c, err := read(text)
		if (err == nil) != allowed {
			t.Errorf("%s: %v", text, err)
		}
		printed, err := kyaml.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Read(write(t, string(printed)), c.Sections...); err != nil || !reflect.DeepEqual(again.Allow, c.Allow) {
			t.Errorf("%v: %+v\nwant\n%+v\n%s", err, again.Allow, c.Allow, printed)
		}
	}
}

func TestNeedsAreWhatThePolicyLacks(t *testing.T) {
	widget := abi.Kind{APIVersion: "example.com/v1", Kind: "Widget"}
	served := func(k abi.Kind) (object.Resource, bool) { return object.Resource{Kind: k, Namespaced: true}, true }
	m := &abi.Manifest{Controllers: []abi.Controller{{
		For: widget.All(), Writes: []abi.Kind{{APIVersion: "v1", Kind: "Pod"}}, Sections: []abi.Section{{Name: "mail", Value: []byte("b")}},
	}}}
	sections := withMail().Sections
	p := Policy{Sections: map[string]PolicySection{"mail": &mail{To: letters{{"a"}}}}}
	needs := p.Missing(m, served, sections)
	const entries, letters = "[{groups: [''], kinds: [Pod], verbs: [create, patch, delete]}]", "[{host: a}, {host: b}]"
	if got, want := needs.PolicyText(), "{apiVersion: thole.dev/v1alpha1, mail: {to: "+letters+"}, allow: "+entries+"}"; got != want || !needs.Any() || !needs.IsExact() {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if asJSON, err := needs.MarshalJSON(); err != nil || !strings.Contains(string(asJSON), `"mail":{"to":[{"host":"a"},{"host":"b"}]}`) {
		t.Errorf("%s, %v", asJSON, err)
	}
	if again := p.With(needs).Missing(m, served, sections); again.Any() || again.PolicyText() != "{apiVersion: thole.dev/v1alpha1}" {
		t.Errorf("%+v", again)
	}
	if p.Allow != nil || len(p.Sections["mail"].(*mail).To) != 1 {
		t.Errorf("the policy has changed: %+v", p)
	}
	if with := (Policy{}).With(needs); with.Sections["mail"] == nil {
		t.Errorf("%+v", with)
	}
	denial := Ceiling{}.Denial("p", needs)
	if !strings.Contains(denial, "write to p.yaml, beside the module, and leave its other fields as they are: "+needs.PolicyText()) ||
		!strings.HasSuffix(denial, "; and to the file of --config: {allow: {entries: {p: "+entries+"}, mail: {p: "+letters+"}}}") {
		t.Error(denial)
	}
	everything := Ceiling{Entries: map[string]rights.Entries{"p": rights.Everything()}}
	denial = everything.Denial("p", needs)
	if !strings.HasSuffix(denial, "; and to the file of --config: {allow: {mail: {p: "+letters+"}}}") {
		t.Error(denial)
	}
	if denial = everything.WithAllSections().Denial("p", needs); strings.Contains(denial, "--config") {
		t.Error(denial)
	}
	m.Controllers[0].Sections[0].Value = []byte("*")
	if needs := p.Missing(m, served, sections); needs.IsExact() {
		t.Errorf("%+v", needs)
	}
}

// weight is a section with numbers.
type weight struct {
	Grams int `json:"grams,omitempty"`
	Tons  int `json:"tons,omitempty"`
}

func (*weight) Problems(*field.Path, string, Ceiling) []error { return nil }
func (*weight) Secrets() []rights.SecretRef                   { return nil }

func (w *weight) Numbers(at *field.Path) []Number {
	return []Number{NumberOf(at.Child("grams"), &w.Grams, 1, 100), NumberOf(at.Child("tons"), &w.Tons, 1, 100)}
}

// Whoever may write a plugin may write a policy beside it, which can only narrow the configuration.
func TestTheNumbersOfASectionAreBoundedByTheConfiguration(t *testing.T) {
	section := withWeight()
	expect := func(c Config, text string, want *weight, refused string) {
		t.Helper()
		p, err := c.ReadPolicy("p", versioned(text))
		if refused != "" {
			wantProblems(t, err, refused)
		} else if err != nil || !reflect.DeepEqual(p.Sections, map[string]PolicySection{"weight": want}) {
			t.Errorf("%s: %+v, %v, want %+v", text, p.Sections["weight"], err, want)
		}
	}
	c := Config{Sections: []Section{section}}.WithDefaults()
	expect(c, "weight: {}", &weight{Grams: 5, Tons: 5}, "")
	expect(c, "weight: {grams: 4}", &weight{Grams: 4, Tons: 5}, "")
	expect(c, "weight: {grams: 6}", nil, "weight.grams: Invalid value: 6: must be at most 5, the host's limit: lower it, or raise weight.grams in the file of --config")
	expect(c, "weight: {grams: 0}", nil, "weight.grams: Invalid value: 0: must be between 1 and 100; remove it for the default")
	expect(c, "weight: {grams: 101}", nil, "weight.grams: Invalid value: 101: must be between 1 and 100")
	expect(c, "weight:", nil, "weight: Required value: write {} for the defaults")
	read, err := Read(write(t, "weight: {grams: 50}"), section)
	if err != nil {
		t.Fatal(err)
	}
	read = read.WithDefaults()
	expect(read, "weight: {tons: 1}", &weight{Grams: 50, Tons: 1}, "")
	expect(read, "weight: {grams: 51}", nil, "must be at most 50, the host's limit")
	expect(read.Unbounded("p", nil), "weight: {grams: 99}", &weight{Grams: 99, Tons: 100}, "")
	p, err := read.ReadUnbounded("p", versioned("weight: {grams: 99}"))
	if want := (&weight{Grams: 99, Tons: 5}); err != nil || !reflect.DeepEqual(p.Sections["weight"], want) {
		t.Errorf("%+v, %v, want %+v", p.Sections["weight"], err, want)
	}
	if value := read.Sections[0].New().(*weight); *value != (weight{Grams: 50, Tons: 5}) {
		t.Errorf("the defaults have become %+v", value)
	}
	if value := read.Values["weight"]; !reflect.DeepEqual(value, &hostWeight{Grams: 50, Tons: 5}) {
		t.Errorf("the field of the file has become %+v", value)
	}
	printed, err := kyaml.Marshal(read)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Read(write(t, string(printed)), section); err != nil || !reflect.DeepEqual(again.Values, read.Values) {
		t.Errorf("%v: printed as\n%s", err, printed)
	}
	_, err = Read(write(t, "weight: {grams: 101, stones: 1}"), section)
	wantProblems(t, err, `unknown field "weight.stones"`)
	_, err = Read(write(t, "weight: {grams: 101}"), section)
	wantProblems(t, err, "weight.grams: Invalid value: 101: must be between 1 and 100")
}

// hostWeight is what the file of --config has of it: the bounds alone.
type hostWeight weight

func (w *hostWeight) Problems(*field.Path) []error { return nil }
func (w *hostWeight) Bounds() PolicySection        { return (*weight)(w) }

func withWeight() Section {
	return Section{
		Name:   "weight",
		New:    func() PolicySection { return &weight{Grams: 5, Tons: 5} },
		Config: func() HostSection { return &hostWeight{Grams: 5, Tons: 5} },
	}
}

// scales bounds the weight of policies, too, and has a field of its own.
type scales struct {
	Place string `json:"place,omitempty"`
	Grams int    `json:"grams,omitempty"`
	Tons  int    `json:"tons,omitempty"`
}

func (s *scales) Problems(at *field.Path) (problems []error) {
	if s.Place == "nowhere" {
		problems = append(problems, field.Invalid(at.Child("place"), s.Place, "must be somewhere"))
	}
	return problems
}

func (s *scales) Bounds() PolicySection { return &weight{Grams: s.Grams, Tons: s.Tons} }

func withScales() Section {
	return Section{
		Name:   "weight",
		New:    func() PolicySection { return &weight{Grams: 5, Tons: 5} },
		Config: func() HostSection { return &scales{Place: "hall", Grams: 5, Tons: 5} },
	}
}

func TestASectionOfTheConfigurationMayBoundPoliciesByAPartOfIt(t *testing.T) {
	for text, want := range map[string]scales{
		"":                      {"hall", 5, 5},
		"weight:":               {"hall", 5, 5},
		"weight: {place: yard}": {"yard", 5, 5},
		"weight: {grams: 50}":   {"hall", 50, 5},
	} {
		c, err := Read(write(t, text), withScales())
		if err != nil {
			t.Fatal(err)
		}
		c = c.WithDefaults()
		if got := c.Values["weight"]; !reflect.DeepEqual(got, &want) {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
		p, err := c.ReadPolicy("p", versioned("weight: {}"))
		if want := want.Bounds(); err != nil || !reflect.DeepEqual(p.Sections["weight"], want) {
			t.Errorf("%s: the policy has %+v, %v, want %+v", text, p.Sections["weight"], err, want)
		}
		printed, err := kyaml.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Read(write(t, string(printed)), withScales()); err != nil || !reflect.DeepEqual(again.Values, c.Values) {
			t.Errorf("%s: %v, printed as\n%s", text, err, printed)
		}
	}
	c, err := Read(write(t, "weight: {grams: 50}"), withScales())
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"weight: {grams: 51}":   "weight.grams: Invalid value: 51: must be at most 50, the host's limit: lower it, or raise weight.grams in the file of --config",
		"weight: {place: yard}": `unknown field "weight.place": it belongs in the file of --config`,
		"weight:":               "weight: Required value: write {} for the defaults",
	} {
		_, err := c.WithDefaults().ReadPolicy("p", versioned(text))
		wantProblems(t, err, want)
	}
	for text, want := range map[string]string{
		"weight: {grams: 0}":       "weight.grams: Invalid value: 0: must be between 1 and 100; remove it for the default",
		"weight: {grams: 101}":     "weight.grams: Invalid value: 101: must be between 1 and 100",
		"weight: {places: a}":      `unknown field "weight.places", did you mean "weight.place"?`,
		"weight: {place: nowhere}": `weight.place: Invalid value: "nowhere": must be somewhere`,
	} {
		_, err := Read(write(t, text), withScales())
		wantProblems(t, err, want)
	}
}

// A host has the sections of its own program, and the bounds of the file that was read.
func TestBoundsAreKeptWithOtherSections(t *testing.T) {
	for name, s := range map[string]Section{"bounds alone": withWeight(), "a part that bounds": withScales()} {
		t.Run(name, func(t *testing.T) {
			read, err := Read(write(t, "weight: {grams: 4}"), s)
			if err != nil {
				t.Fatal(err)
			}
			read.Sections = []Section{{Name: "other"}, s}
			c := read.WithDefaults()
			if p, err := c.ReadPolicy("p", versioned("weight: {}")); err != nil || !reflect.DeepEqual(p.Sections["weight"], &weight{Grams: 4, Tons: 5}) {
				t.Errorf("%+v, %v", p.Sections["weight"], err)
			}
			_, err = c.ReadPolicy("p", versioned("weight: {grams: 5}"))
			wantProblems(t, err, "must be at most 4, the host's limit")
			if s := s.New().(*weight); s.Grams != 5 {
				t.Errorf("the defaults have become %+v", s)
			}
		})
	}
}

// stamp is the section of a capability that allow has a list of plugins for.
type stamp struct{}

func (*stamp) Problems(at *field.Path, plugin string, ceiling Ceiling) []error {
	if allowed, all := ceiling.SectionOf("stamp", plugin); allowed == nil && !all {
		return []error{NotAllowed(at, plugin, "stamp", Named{})}
	}
	return nil
}

func (*stamp) Secrets() []rights.SecretRef { return nil }

func TestAFieldOfAllowMayBeAListOfPlugins(t *testing.T) {
	section := Section{Name: "stamp", New: func() PolicySection { return &stamp{} }, Allow: Named{}, Missing: func(PolicySection, bool, *abi.Manifest) MissingSection {
		return MissingSection{Value: &stamp{}, Text: "{}", Allow: Named{}}
	}}
	for text, allowed := range map[string]bool{
		"": false, "allow: {stamp: []}": false, "allow: {stamp: [q]}": false, "allow: {stamp: [q, p]}": true, "allow: {stamp: ['*']}": true,
	} {
		c, err := Read(write(t, text), section)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.WithDefaults().ReadPolicy("p", versioned("stamp: {}"))
		switch {
		case allowed && err != nil:
			t.Errorf("%s: %v", text, err)
		case !allowed:
			wantProblems(t, err, "stamp: Forbidden: ", "in the file of --config: {allow: {stamp: [p]}}")
		}
		printed, err := kyaml.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Read(write(t, string(printed)), section); err != nil || len(c.Allow.Sections["stamp"]) > 0 && !reflect.DeepEqual(again.Allow, c.Allow) {
			t.Errorf("%v: %+v\nwant\n%+v\n%s", err, again.Allow, c.Allow, printed)
		}
		if denial := c.Allow.Denial("p", (Policy{}).Missing(&abi.Manifest{}, nil, []Section{section})); !strings.Contains(denial, "stamp: {}}") || strings.HasSuffix(denial, "; and to the file of --config: {allow: {stamp: [p]}}") == allowed {
			t.Errorf("%s: %s", text, denial)
		}
		_, err = c.WithDefaults().Unbounded("p", nil).ReadPolicy("p", versioned("stamp: {}"))
		if err != nil {
			t.Error(err)
		}
	}
	for text, want := range map[string]string{
		"allow: {stamp: [A]}":       `allow.stamp: Invalid value: "A": must be the name of a plugin, or "*"`,
		"allow: {stamp: {p: [{}]}}": "allow.stamp: Invalid value: ",
		"allow: {stamp: [{}]}":      "allow.stamp[0]: Invalid value: {}: must be text",
	} {
		_, err := Read(write(t, text), section)
		wantProblems(t, err, want)
	}
}

// What the configuration bounds stays bounded where everything else is allowed.
func TestAllSectionsButThoseThatAllowHasAreAllowed(t *testing.T) {
	a := Ceiling{Sections: map[string]map[string]AllowSection{"mail": {"p": letters{{"a"}}}}}.WithAllSections()
	for name, want := range map[string]bool{"mail": false, "post": true} {
		if _, all := a.SectionOf(name, "p"); all != want {
			t.Errorf("%s: %t", name, all)
		}
	}
}

// shop is the section of a capability that listens.
type shop struct {
	Door string `json:"door,omitempty"`
	Open bool   `json:"open,omitempty"`
}

func (*shop) Problems(*field.Path) []error   { return nil }
func (s *shop) Address() string              { return s.Door }
func (s *shop) ListenLocally(address string) { s.Door = address }
func (s *shop) Flags() []Flag                { return []Flag{{"door", "where", &s.Door}, {"open", "now", &s.Open}} }

func TestFieldsOfASectionAreSet(t *testing.T) {
	sections := append(withMail().Sections, Section{Name: "shop", Config: func() HostSection { return &shop{} }})
	for text, want := range map[string]string{"": "", "shop: {door: front}": "front"} {
		c, err := Read(write(t, text), sections...)
		if err != nil {
			t.Fatal(err)
		}
		all := c.Listening()
		if len(all) != 1 {
			t.Fatalf("%v", all)
		}
		if got := all["shop"].Address(); got != want {
			t.Errorf("%s: %q", text, got)
		}
		all["shop"].ListenLocally("back")
		flags := c.Flags()
		if len(flags) != 2 || *flags[0].Field.(*string) != "back" {
			t.Fatalf("%s: flags %v", text, flags)
		}
		*flags[1].Field.(*bool) = true
		if got := *c.WithDefaults().Values["shop"].(*shop); got != (shop{"back", true}) {
			t.Errorf("%s: after it was set: %+v", text, got)
		}
	}
}
