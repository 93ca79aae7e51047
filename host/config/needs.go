package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/egress"
	"github.com/thole-dev/thole/host/rights"
	"github.com/thole-dev/thole/host/sanitize"
)

// This file compares a manifest with a policy.

// Needs are what a plugin needs and its policy lacks. A field has what the field of the policy
// has to have, with what it has already; the zero value if nothing is missing there.
type Needs struct {
	Entries rights.Entries // allow
	HTTP    egress.Entries

	Sections map[string]PolicySection // of capabilities, by the names of their fields: {}, with the defaults
	Webhooks bool                     // {}, with the defaults
}

// Any reports whether something is missing.
func (n Needs) Any() bool {
	return n.Entries != nil || len(n.Sections) > 0 || n.HTTP != nil || n.Webhooks
}

// Lacks returns what a manifest needs that the policy does not allow. sections are those of the capabilities.
func (p Policy) Lacks(m *abi.Manifest, resources rights.Resources, sections []Section) (n Needs) {
	asked := rights.Asked{Manifest: m, Resources: resources, ForNoObject: func(c *abi.Controller) bool {
		return slices.ContainsFunc(sections, func(s Section) bool { return s.ForNoObject != nil && s.ForNoObject(c) })
	}}
	if p.Allow.Missing(asked) {
		n.Entries = p.Allow.CompletedFor(asked)
	}
	if missing := p.HTTP.Missing(m); missing != nil {
		n.HTTP = slices.Concat(p.HTTP, missing)
	}
	n.Webhooks = p.Webhooks == nil && Offers(m)
	for _, s := range sections {
		if p.Sections[s.Name] == nil && s.Needed != nil && slices.ContainsFunc(m.Controllers, func(c abi.Controller) bool { return s.Needed(&c) }) {
			if n.Sections == nil {
				n.Sections = map[string]PolicySection{}
			}
			n.Sections[s.Name] = s.New()
		}
	}
	return n
}

// With returns the policy with what was missing.
func (p Policy) With(n Needs) Policy {
	if n.Entries != nil {
		p.Allow = n.Entries
	}
	if n.HTTP != nil {
		p.HTTP = n.HTTP
	}
	if n.Sections != nil {
		all := maps.Clone(n.Sections)
		maps.Copy(all, p.Sections)
		p.Sections = all
	}
	if n.Webhooks {
		p.Webhooks = DefaultWebhooks()
	}
	return p
}

// IsExact reports whether the needs are no more than a plugin uses. A host with a wildcard
// stands for all hosts that somebody allows, and not for all that there are.
func (n Needs) IsExact(p Policy) bool {
	_, exact := n.HTTP[min(len(p.HTTP), len(n.HTTP)):].WithoutWildcards()
	return exact
}

// maxPolicyText bounds the text of what a manifest needs, in bytes. It is longer than that
// of a hundred kinds.
const maxPolicyText = 8 << 10

// MarshalJSON implements [json.Marshaler]: a policy with the needs.
func (n Needs) MarshalJSON() ([]byte, error) {
	p := map[string]any{"apiVersion": rights.APIVersion}
	for name := range n.Sections {
		p[name] = struct{}{}
	}
	if n.Webhooks {
		p["webhooks"] = struct{}{}
	}
	if n.Entries != nil {
		p["allow"] = n.Entries
	}
	if n.HTTP != nil {
		p["http"] = n.HTTP
	}
	return json.Marshal(p)
}

// PolicyText returns a policy with the needs, on one line of bounded length.
func (n Needs) PolicyText() string {
	fields := []string{"apiVersion: " + rights.APIVersion}
	for _, name := range slices.Sorted(maps.Keys(n.Sections)) {
		fields = append(fields, name+": {}")
	}
	if n.Webhooks {
		fields = append(fields, "webhooks: {}")
	}
	if n.Entries != nil {
		fields = append(fields, "allow: "+n.Entries.String())
	}
	if n.HTTP != nil {
		fields = append(fields, "http: "+n.HTTP.String())
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
	if n.HTTP != nil {
		fields = append(fields, fmt.Sprintf("http: {%s: %s}", rights.Quote(plugin), n.HTTP))
	}
	if n.Webhooks {
		fields = append(fields, fmt.Sprintf("webhooks: [%s]", rights.Quote(plugin)))
	}
	return "{allow: {" + strings.Join(fields, ", ") + "}}"
}

// beyond returns the needs that the configuration does not let the policy of a plugin have.
func (n Needs) beyond(a Allow, plugin string) (more Needs) {
	if !a.Covers(plugin, n.Entries) {
		more.Entries = n.Entries
	}
	if slices.ContainsFunc(n.HTTP, func(e egress.Entry) bool { return !a.coversHTTP(plugin, e) }) {
		more.HTTP = n.HTTP
	}
	more.Webhooks = n.Webhooks && !a.AllowsWebhooks(plugin)
	return more
}

// Denial states what the policy of a plugin has to allow, and the configuration if it does not
// allow that yet.
func (a Allow) Denial(plugin string, n Needs) string {
	reason := "the policy does not allow what the manifest asks for; write to " + plugin + ".yaml, beside the module, and leave its other fields as they are: " + n.PolicyText()
	if more := n.beyond(a, plugin); more.Any() {
		reason += "; and to the file of --config: " + more.configText(plugin)
	}
	return sanitize.Truncate(reason, 2*maxPolicyText)
}
