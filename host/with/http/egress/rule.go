package egress

import (
	"net/netip"
	"slices"
	"strings"

	contract "github.com/thole-dev/thole/abi/http"
)

// rule is an entry in the form in which requests are compared with it.
type rule struct {
	Entry
	hosts   pattern
	allowed addresses
}

func rulesOf(entries Entries) []*rule {
	rules := make([]*rule, len(entries))
	for i, e := range entries {
		rules[i] = &rule{Entry: e, hosts: e.pattern(), allowed: e.addresses()}
	}
	return rules
}

func (r *rule) allows(method string, t target) bool {
	return r.scheme() == t.scheme && slices.Contains(r.methods(), method) && r.hosts.matches(t)
}

// ruleFor returns the entry by which a request is sent: the first one of those about the
// fewest hosts. It returns nil if there is none.
func ruleFor(rules []*rule, method string, t target) (best *rule) {
	for _, r := range rules {
		if r.allows(method, t) && (best == nil || r.hosts.specificity() > best.hosts.specificity()) {
			best = r
		}
	}
	return best
}

// declares reports whether a manifest declares a request.
func declares(declared []contract.Host, method string, t target) bool {
	return slices.ContainsFunc(declared, func(h contract.Host) bool {
		p, err := parsePattern(h.Host)
		if err != nil || !slices.Contains(methodsOr(h.Methods), method) {
			return false
		}
		return p.every && p.port == 0 || p.matches(t)
	})
}

// authorize returns the rule by which a request is sent. It also returns one if that does not allow the
// address.
func (c *Client) authorize(declared []contract.Host, method string, t target) (*rule, error) {
	wanted := Entry{Host: t.authority(), Methods: []string{method}}
	if !declares(declared, method, t) {
		return nil, denied("the manifest of the controller does not declare requests %s to %s; it has to have http: [{host: %s, methods: [%s]}]",
			method, t.authority(), t.authority(), method)
	}
	if t.scheme == http1 {
		wanted.Scheme = http1
	}
	r := ruleFor(c.rules, method, t)
	if r == nil {
		return nil, denied("the policy does not allow requests %s to %s://%s; %s.yaml would allow them by http: {hosts: [%s]}",
			method, t.scheme, t.authority(), c.config.Plugin, wanted)
	}
	if c.config.DryRun && !slices.Contains([]string{"GET", "HEAD", "OPTIONS"}, method) {
		return nil, denied("the policy has dryRun: requests %s are not sent, only GET, HEAD and OPTIONS", method)
	}
	return r, c.checkLiteral(r, t)
}

// checkLiteral returns an error unless a rule allows an address that is known before it is
// dialled, which a proxy would do.
func (c *Client) checkLiteral(r *rule, t target) error {
	switch {
	case t.addr.IsValid():
		return c.checkAddress(r, t.authority(), t.addr)
	case isLocalhost(t.name) && r.Proxy != "": // whatever the proxy makes of it (RFC 6761)
		return c.checkAddress(r, t.authority(), netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	}
	return nil
}

func isLocalhost(name string) bool {
	return name == "localhost" || strings.HasSuffix(name, ".localhost")
}
