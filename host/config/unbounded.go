package config

import "github.com/thole-dev/thole/host/rights"

// Unbounded returns the configuration with what lets the policy of a plugin have all that is
// valid in a policy. It is for what is printed about a plugin, and not for a host.
func (c Config) Unbounded(plugin string, policy []byte) Config {
	var p Policy
	_ = decode(policy, policyFile{&p, c.Sections}) // an error is that of ReadPolicy, too
	for _, n := range c.Limits.numbers() {
		n.set(n.maximum)
	}
	c.Values = nil
	bounds := c.bounds() // of the defaults of policies alone
	for _, n := range sectionNumbers(bounds) {
		n.set(n.maximum)
	}
	c.Sections = withBounds(c.Sections, bounds)
	c.Allow = Ceiling{
		Entries: map[string]rights.Entries{plugin: rights.Everything()}, Pooled: []string{plugin},
		ServiceAccounts: map[string][]string{plugin: {p.ServiceAccount}},
	}.WithAllSections()
	return c
}

// ReadUnbounded is [Config.ReadPolicy] for a host whose configuration is not known: the policy may have all
// that is valid. Limits that it does not state are those of c.
func (c Config) ReadUnbounded(plugin string, text []byte) (Policy, error) {
	p, err := c.Unbounded(plugin, text).ReadPolicy(plugin, text)
	if err != nil {
		return p, err
	}
	stated := Policy{Limits: c.Limits}
	err = decode(text, policyFile{&stated, c.Sections})
	p.Limits, p.Sections = stated.Limits, stated.Sections
	return p, err
}

// MayActAs returns an error if the configuration does not let the policy of a plugin name a
// service account.
func (c Config) MayActAs(plugin string, account rights.Account) error {
	return c.Allow.checkServiceAccount(plugin, account.String())
}
