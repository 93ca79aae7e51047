package rights

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/thole-dev/thole/abi"
)

// APIVersion is the version of the schema of policies.
const APIVersion = "thole.dev/v1alpha1"

// String returns the entries as YAML, on one line.
func (all Entries) String() string {
	texts := make([]string, len(all))
	for i, e := range all {
		texts[i] = e.String()
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

// String returns the entry as YAML, on one line.
func (e Entry) String() string { return "{" + strings.Join(e.Fields(), ", ") + "}" }

// Fields returns the fields of the entry as YAML.
func (e Entry) Fields() (fields []string) {
	add := func(name string, values []string) {
		quoted := make([]string, len(values))
		for i, v := range values {
			quoted[i] = Quote(v)
		}
		fields = append(fields, name+": ["+strings.Join(quoted, ", ")+"]")
	}
	add("groups", e.Groups)
	add("kinds", e.Kinds)
	add("verbs", e.Verbs)
	if len(e.Namespaces) > 0 {
		add("namespaces", e.Namespaces)
	}
	return fields
}

// plain matches what YAML reads as text, except for the words of ambiguous.
var plain = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9./-]*$`)

var ambiguous = []string{"y", "n", "yes", "no", "on", "off", "true", "false", "null"}

// Quote returns a name as YAML. It is in single quotes, which a log in JSON leaves as they
// are, unless it needs none.
func Quote(name string) string {
	if plain.MatchString(name) && !slices.Contains(ambiguous, strings.ToLower(name)) {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", "''") + "'"
}

// tally collects needs.
type tally struct{ all Entries }

// add adds what is needed of one kind.
func (t *tally) add(n need) {
	wanted := Entry{Groups: []string{n.kind.Group()}, Kinds: []string{name(n.kind, n.sub)}, Verbs: n.verbs()}
	switch {
	case !n.namespaced:
	case len(n.namespaces) > 0 && !n.primary:
		wanted.Namespaces = slices.Sorted(slices.Values(n.namespaces))
	case !n.primaryNamespaced: // which has no namespace of its own
		wanted.Namespaces = []string{Any}
	}
	for i, e := range t.all {
		if e.Groups[0] == wanted.Groups[0] && e.Kinds[0] == wanted.Kinds[0] && slices.Equal(e.Namespaces, wanted.Namespaces) {
			t.all[i].Verbs = slices.DeleteFunc(Verbs(), func(verb string) bool {
				return !slices.Contains(e.Verbs, verb) && !slices.Contains(wanted.Verbs, verb)
			})
			return
		}
	}
	t.all = append(t.all, wanted)
}

// entries returns what was collected, with one entry for all kinds of a group that are
// needed in the same way.
func (t *tally) entries() (merged Entries) {
	slices.SortStableFunc(t.all, func(a, b Entry) int {
		return cmp.Or(strings.Compare(a.Groups[0], b.Groups[0]), strings.Compare(a.Kinds[0], b.Kinds[0]))
	})
	for n, e := range t.all {
		if slices.Concat(t.all[:n], t.all[n+1:]).Cover(e) {
			continue
		}
		i := slices.IndexFunc(merged, func(m Entry) bool {
			return m.Groups[0] == e.Groups[0] && slices.Equal(m.Verbs, e.Verbs) && slices.Equal(m.Namespaces, e.Namespaces)
		})
		if i < 0 {
			merged = append(merged, e)
			continue
		}
		merged[i].Kinds = append(merged[i].Kinds, e.Kinds...)
	}
	return merged
}

// EntryFor returns an entry that allows a verb on an object. namespace is that of the object,
// "" if it is cluster-scoped or not known, and own that of the primary.
func EntryFor(kind abi.Kind, sub, verb, namespace, own string) Entry {
	e := Entry{Groups: []string{kind.Group()}, Kinds: []string{name(kind, sub)}, Verbs: []string{verb}}
	if namespace != "" && namespace != own {
		e.Namespaces = []string{namespace}
	}
	return e
}
