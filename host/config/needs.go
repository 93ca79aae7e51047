package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kyaml "sigs.k8s.io/yaml"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/rights"
	"github.com/thole-dev/thole/host/sanitize"
)

// This file compares a manifest with a policy.

// Needs are what a plugin needs and its policy does not allow. A field has what the field of the policy
// has to have, with what it has already; the zero value if nothing is missing there.
type Needs struct {
	Entries  rights.Entries            // allow
	Sections map[string]MissingSection // of capabilities, by the names of their fields
}

// Any reports whether something is missing.
func (n Needs) Any() bool { return n.Entries != nil || len(n.Sections) > 0 }

// Missing returns what a manifest needs that the policy does not allow. sections are those of the capabilities.
func (p Policy) Missing(m *abi.Manifest, resources rights.Resources, sections []Section) (n Needs) {
	asked := rights.Asked{Manifest: m, Resources: resources, Uses: func(c *abi.Controller) rights.Use {
		return UsesOf(c, sections)
	}}
	if !p.Allow.Suffice(asked) {
		n.Entries = p.Allow.CompletedFor(asked)
	}
	for _, s := range sections {
		if s.Missing == nil {
			continue
		}
		has, written := p.Sections[s.Name]
		if !written {
			has = s.New()
		}
		if missing := s.Missing(has, written, m); missing.Value != nil {
			if n.Sections == nil {
				n.Sections = map[string]MissingSection{}
			}
			n.Sections[s.Name] = missing
		}
	}
	return n
}

// With returns the policy with what was missing.
func (p Policy) With(n Needs) Policy {
	if n.Entries != nil {
		p.Allow = n.Entries
	}
	if n.Sections != nil {
		all := map[string]PolicySection{}
		maps.Copy(all, p.Sections)
		for name, s := range n.Sections {
			all[name] = s.Value
		}
		p.Sections = all
	}
	return p
}

// IsExact reports whether the needs are no more than a plugin uses.
func (n Needs) IsExact() bool {
	for _, s := range n.Sections {
		if s.Wildcard {
			return false
		}
	}
	return true
}

// maxPolicyText bounds the text of what a manifest needs, in bytes. It is longer than that
// of a hundred kinds.
const maxPolicyText = 8 << 10

// MarshalJSON implements [json.Marshaler]: a policy with the needs.
func (n Needs) MarshalJSON() ([]byte, error) {
	p := map[string]any{"apiVersion": rights.APIVersion}
	for name, s := range n.Sections {
		asJSON, err := kyaml.YAMLToJSON([]byte(s.Text))
		if err != nil {
			return nil, err
		}
		p[name] = json.RawMessage(asJSON)
	}
	if n.Entries != nil {
		p["allow"] = n.Entries
	}
	return json.Marshal(p)
}

// PolicyText returns a policy with the needs, on one line of bounded length.
func (n Needs) PolicyText() string {
	fields := []string{"apiVersion: " + rights.APIVersion}
	for _, name := range slices.Sorted(maps.Keys(n.Sections)) {
		fields = append(fields, name+": "+n.Sections[name].Text)
	}
	if n.Entries != nil {
		fields = append(fields, "allow: "+n.Entries.String())
	}
	return sanitize.Truncate("{"+strings.Join(fields, ", ")+"}", maxPolicyText)
}

// configText returns the part of the configuration that lets the policy of a plugin have the
// needs, on one line.
func (n Needs) configText(plugin string) string {
	var fields []string
	if n.Entries != nil {
		fields = append(fields, fmt.Sprintf("entries: {%s: %s}", rights.Quote(plugin), n.Entries))
	}
	for _, name := range slices.Sorted(maps.Keys(n.Sections)) {
		fields = append(fields, allowText(name, plugin, n.Sections[name].Allow))
	}
	return "{allow: {" + strings.Join(fields, ", ") + "}}"
}

// allowText returns the field of a capability in allow, with what it has of a plugin, on one line.
func allowText(name, plugin string, value AllowSection) string {
	if value == (Named{}) {
		return fmt.Sprintf("%s: [%s]", name, rights.Quote(plugin))
	}
	return fmt.Sprintf("%s: {%s: %s}", name, rights.Quote(plugin), value)
}

// notAllowed returns the error of a part of a policy, at that path, that needs this of the configuration.
func (n Needs) notAllowed(at *field.Path, plugin string) error {
	return field.Forbidden(at, "the host's configuration does not allow this much to the plugin: "+
		"remove it, or have it allowed in the file of --config: "+n.configText(plugin))
}

// NotAllowed returns the error of a part of a policy, at that path, for which the field of a capability in allow has
// to have more.
func NotAllowed(at *field.Path, plugin, name string, more AllowSection) error {
	return Needs{Sections: map[string]MissingSection{name: {Allow: more}}}.notAllowed(at, plugin)
}

// beyond returns the needs that the configuration does not let the policy of a plugin have.
func (n Needs) beyond(c Ceiling, plugin string) (more Needs) {
	if !c.covers(plugin, n.Entries) {
		more.Entries = n.Entries
	}
	for name, s := range n.Sections {
		if s.Allow != nil && s.Value.Problems(field.NewPath(name), plugin, c) != nil {
			if more.Sections == nil {
				more.Sections = map[string]MissingSection{}
			}
			more.Sections[name] = s
		}
	}
	return more
}

// Denial states what the policy of a plugin has to allow, and the configuration if it does not
// allow that yet.
func (c Ceiling) Denial(plugin string, n Needs) string {
	reason := "the policy does not allow what the manifest asks for; write to " + plugin + ".yaml, beside the module, and leave its other fields as they are: " + n.PolicyText()
	if more := n.beyond(c, plugin); more.Any() {
		reason += "; and to the file of --config: " + more.configText(plugin)
	}
	return sanitize.Truncate(reason, 2*maxPolicyText)
}
