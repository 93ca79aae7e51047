package scope

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/fieldpath"
)

// Plugin is what a plugin follows.
type Plugin struct {
	Controllers []Controller // in the order of the manifest
	Followed    []Scope      // one for each kind, ordered by kind, which covers those of the controllers
	// Written are the kinds that the plugin writes, if it does not follow all of their objects
	// otherwise: by metadata.
	Written []Scope
	// PollIntervals are by kind the times between two lists of those that cannot be watched.
	PollIntervals map[abi.Kind]time.Duration
}

// Controller is what a controller follows.
type Controller struct {
	For     Scope
	Owns    []Scope            // in the order of the manifest
	Watches []Scope            // in the order of the manifest
	Reads   map[abi.Kind]Reads // of all entries, also those of the manifest's reads
}

// OfManifest returns what a plugin follows if it may follow only those namespaces; nil
// stands for all. The error says which selector cannot be used, and where, or that the plugin
// needs too many watches.
func OfManifest(m *abi.Manifest, namespaces []string) (*Plugin, error) {
	p := &Plugin{PollIntervals: pollIntervals(m)}
	followed, written := map[abi.Kind]Scope{}, map[abi.Kind]Scope{}
	fieldSelectors := map[abi.Kind]string{}
	for i := range m.Controllers {
		c, err := ofController(m, &m.Controllers[i], namespaces)
		if err != nil {
			return nil, fmt.Errorf("controller %q: %w", m.Controllers[i].Name, err)
		}
		for kind, reads := range c.Reads {
			for _, s := range reads {
				if err := checkFields(fieldSelectors, s); err != nil {
					return nil, fmt.Errorf("controller %q: %w", m.Controllers[i].Name, err)
				}
				if before, ok := followed[kind]; ok {
					s = Join(before, s)
				}
				followed[kind] = s
			}
		}
		for _, kind := range m.Controllers[i].Writes {
			written[kind] = Scope{Kind: kind, Namespaces: sorted(namespaces), MetadataOnly: true}
		}
		p.Controllers = append(p.Controllers, c)
	}
	maps.DeleteFunc(written, func(kind abi.Kind, s Scope) bool { other, also := followed[kind]; return also && other.Covers(s) })
	p.Followed, p.Written = byKind(followed), byKind(written)
	return p, p.checkWatches()
}

// maxWatches is how many watches a plugin may need: one for each kind or, of a kind in some
// namespaces only, one for each of these. Each takes about 60 KB, without objects.
const maxWatches = 512

func (p *Plugin) checkWatches() error {
	needed := 0
	for _, s := range slices.Concat(p.Followed, p.Written) {
		needed += max(1, len(s.Namespaces))
	}
	if needed > maxWatches {
		return fmt.Errorf("the plugin would need %d watches, one for each kind and namespace, and may have %d: "+
			"let the manifest or the policy name fewer namespaces, or none, and the manifest fewer kinds", needed, maxWatches)
	}
	return nil
}

func byKind(scopes map[abi.Kind]Scope) []Scope {
	return slices.SortedFunc(maps.Values(scopes), func(a, b Scope) int { return strings.Compare(a.Kind.String(), b.Kind.String()) })
}

// checkFields refuses a field selector beside another one of the kind: the host could
// not tell which objects belong to which of them.
func checkFields(before map[abi.Kind]string, s Scope) error {
	text := ""
	if slices.ContainsFunc(s.Fields, func(r fieldpath.Requirement) bool { return !isIdentity(r) }) {
		text = s.FieldSelector()
	}
	if other, ok := before[s.Kind]; ok && other != text {
		return fmt.Errorf("%s is followed by the fieldSelectors %q and %q: all entries of the kind in a plugin must have the same one", s.Kind, other, text)
	}
	before[s.Kind] = text
	return nil
}

func ofController(m *abi.Manifest, c *abi.Controller, namespaces []string) (out Controller, err error) {
	out.Reads = map[abi.Kind]Reads{}
	add := func(w abi.Followed, owned bool) (Scope, error) {
		s, err := Of(w)
		if err != nil {
			return s, err
		}
		if s = s.Within(sorted(namespaces)); len(s.Namespaces) == 0 && s.Namespaces != nil {
			return s, fmt.Errorf("%s: the namespaces of the manifest (%s) are none of those that the plugin may follow (%s)",
				w.Kind, strings.Join(sorted(w.Namespaces), ", "), strings.Join(namespaces, ", "))
		}
		if owned && m.Managed {
			s.Managed, s.Labels = true, labels.SelectorFromSet(labels.Set{abi.LabelManagedBy: m.Name})
		}
		out.Reads[s.Kind] = out.Reads[s.Kind].with(s)
		return s, nil
	}
	if out.For, err = add(c.For, false); err != nil {
		return out, err
	}
	for _, w := range c.Owns {
		s, err := add(w, true)
		if err != nil {
			return out, err
		}
		out.Owns = append(out.Owns, s)
	}
	for _, w := range c.Reads {
		if _, err := add(w, false); err != nil {
			return out, err
		}
	}
	for _, w := range c.Watches {
		s, err := add(w.Followed, false)
		if err != nil {
			return out, err
		}
		out.Watches = append(out.Watches, s)
	}
	return out, nil
}

// with adds a scope, unless another one covers it. What is owned stays beside others that
// cover it: it need not be named.
func (all Reads) with(s Scope) Reads {
	if slices.ContainsFunc(all, func(other Scope) bool { return other.Covers(s) && (other.Managed || !s.Managed) }) {
		return all
	}
	for i, other := range all {
		if other.Managed == s.Managed && other.LabelSelector() == s.LabelSelector() && other.FieldSelector() == s.FieldSelector() && other.MetadataOnly == s.MetadataOnly {
			all[i] = Join(other, s) // they differ in their namespaces
			return all
		}
	}
	return append(all, s)
}

func sorted(namespaces []string) []string {
	if namespaces == nil {
		return nil
	}
	return slices.Sorted(slices.Values(namespaces))
}
