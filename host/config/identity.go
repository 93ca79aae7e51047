package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/rights"
)

// This file checks as whom a plugin acts, and which module it is.

// Account returns the service account that the plugin acts as, the zero value if it acts as
// the host.
func (p Policy) Account() rights.Account {
	account, _ := rights.ParseAccount(p.ServiceAccount) // the policy was checked
	return account
}

// Pins reports whether the policy lets a module with that digest run, which is in hex.
func (p Policy) Pins(digest string) bool {
	return p.Digest == "" || p.Digest == digestPrefix+digest
}

const digestPrefix = "sha256:"

var pinned = regexp.MustCompile("^" + digestPrefix + "[0-9a-f]{64}$")

func checkDigest(digest string) error {
	if digest == "" || pinned.MatchString(digest) {
		return nil
	}
	return field.Invalid(field.NewPath("digest"), digest, "must be the SHA-256 of the module as sha256:<64 lower case hexadecimal digits>, as `sha256sum` prints it")
}

// checkServiceAccount returns an error if a plugin may not act as a service account.
func (c Config) checkServiceAccount(plugin, text string) error {
	if text == "" {
		return nil // not written
	}
	at := field.NewPath("serviceAccount")
	account, err := rights.ParseAccount(text)
	if err != nil {
		return field.Invalid(at, text, err.Error())
	}
	allowed, ok := c.Allow.ServiceAccounts[plugin]
	if !ok {
		allowed = c.Allow.ServiceAccounts[EveryPlugin]
	}
	if slices.Contains(allowed, account.String()) || slices.Contains(allowed, account.Namespace+"/*") {
		return nil
	}
	return field.Forbidden(at, fmt.Sprintf("the host's configuration does not allow the plugin to act as %s: have it allowed in the file of --config: "+
		"{allow: {serviceAccounts: {%s: [%s]}}}", account, rights.Quote(plugin), rights.Quote(account.String())))
}

// accountProblems returns what is wrong with the accounts of the plugins.
func (a Allow) accountProblems() (problems []error) {
	at := field.NewPath("allow", "serviceAccounts")
	for _, plugin := range slices.Sorted(maps.Keys(a.ServiceAccounts)) {
		problems = append(problems, pluginProblems(at, plugin)...)
		if len(a.ServiceAccounts[plugin]) == 0 {
			problems = append(problems, field.Required(at.Key(plugin), "name a service account, or remove the line"))
		}
		for i, text := range a.ServiceAccounts[plugin] {
			namespace, all := strings.CutSuffix(text, "/*")
			if _, err := rights.ParseAccount(text); err != nil && !(all && abi.ValidName(namespace)) {
				problems = append(problems, field.Invalid(at.Key(plugin).Index(i), text, err.Error()+", or NAMESPACE/* for all of a namespace"))
			}
		}
	}
	return problems
}
