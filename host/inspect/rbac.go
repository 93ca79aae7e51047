package inspect

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/host/cache/scope"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/rights"
	"github.com/thole-dev/thole/host/sanitize"
)

// RBACOptions configure [Report.RBAC].
type RBACOptions struct {
	Host        config.Config  // the ceiling of the policy
	Policy      config.Policy  // of the plugin
	Account     rights.Account // that the plugin is to act as
	HostAccount rights.Account // of the host
	Constrained bool           // the API server has constrained impersonation
	// Rules are what the account of the host needs for the plugin because of capabilities, whatever its manifest has.
	Rules []rights.Rule
}

// RBAC returns the service account that a plugin acts as, and the roles and bindings for it and
// for the account of the host, as YAML. The error is why the host would refuse the plugin, or
// what its policy has to allow.
//
// Names of objects have the plugin and the accounts: of two plugins, or for other accounts, no
// object but a service account has the same.
func (r *Report) RBAC(o RBACOptions) ([]byte, error) {
	if err := r.Refused(); err != nil {
		return nil, err
	}
	if !o.Policy.Pins(r.Digest) {
		return nil, fmt.Errorf("the policy pins another module: its digest is %s, and that of this file sha256:%s", o.Policy.Digest, r.Digest)
	}
	allow, secrets, resources := o.Policy.Allow, o.Policy.Secrets(), resourcesOf(r.resources)
	namespaces := []string(o.Policy.Namespaces)
	if o.Host.Namespace != "" {
		namespaces = []string{o.Host.Namespace}
	}
	if needs := o.Policy.Missing(r.manifest, resources, o.Host.Sections); needs.Any() {
		return nil, errors.New(o.Host.Allow.Denial(r.Name, needs))
	}
	if _, err := scope.OfManifest(allow.Narrow(r.manifest), namespaces); err != nil {
		return nil, err
	}
	y := &roles{guessed: func(rule rights.Rule) bool { return isGuessed(r.resources, rule) }}
	y.head(r, o)
	y.account(o.Account)
	name := r.Name + ":" + o.Account.Namespace + ":" + o.Account.Name
	y.rolesOf(o.Account, "thole:"+name, allow.AccountRules(r.manifest, namespaces, resources, secrets...))
	name += ":" + o.HostAccount.Namespace + ":" + o.HostAccount.Name
	host := allow.HostRules(r.manifest, o.Account, rights.Acting{Constrained: o.Constrained, Local: o.Host.InNamespaces()}, namespaces, resources, secrets...)
	host = append(host, o.Rules...)
	if r.rules != nil {
		host = append(host, notAmong(host, r.rules(r.manifest, resources))...)
	}
	slices.SortStableFunc(host, func(a, b rights.Rule) int { return strings.Compare(a.Namespace, b.Namespace) })
	y.rolesOf(o.HostAccount, "thole-host:"+name, host)
	return y.Bytes(), nil
}

// notAmong returns the rules, for all namespaces, that are not among others.
func notAmong(others, rules []rights.Rule) []rights.Rule {
	return slices.DeleteFunc(rules, func(r rights.Rule) bool {
		return slices.ContainsFunc(others, func(o rights.Rule) bool {
			return o.Group == r.Group && o.Path() == r.Path() && o.Namespace == "" && o.Name == "" && slices.Equal(o.Verbs, r.Verbs)
		})
	})
}

// HasConstrainedImpersonation reports whether an API server has constrained impersonation
// (KEP-5284), which is on by default in Kubernetes 1.36.
func HasConstrainedImpersonation(cluster *rest.Config) (bool, error) {
	client, err := discovery.NewDiscoveryClientForConfig(cluster)
	if err != nil {
		return false, err
	}
	info, err := client.ServerVersion()
	if err != nil {
		return false, fmt.Errorf("find out the version of the API server: %w", err)
	}
	v, err := version.ParseGeneric(info.GitVersion)
	if err != nil {
		return false, fmt.Errorf("find out the version of the API server: %w", err)
	}
	return v.AtLeast(version.MajorMinor(1, 36)), nil
}

// roles are objects of RBAC as YAML.
type roles struct {
	bytes.Buffer
	guessed func(rights.Rule) bool
	begun   bool // an object
}

// line writes a line, of which what comes from elsewhere cannot make two.
func (y *roles) line(format string, args ...any) {
	y.WriteString(sanitize.Line(fmt.Sprintf(format, args...)) + "\n")
}

// head writes what is printed, and what has to be done beside applying it.
func (y *roles) head(r *Report, o RBACOptions) {
	y.line("# What the plugin %s needs to act as the service account %s", r.Name, o.Account)
	y.line("# in a host that acts as %s. The namespaces must exist.", o.HostAccount)
	if o.Policy.Account() != o.Account {
		y.line("# The policy, %s.yaml, must have: serviceAccount: %s", r.Name, o.Account)
	}
	var guessed []string
	for kind, found := range r.resources {
		if found.guessed {
			guessed = append(guessed, kind.String())
		}
	}
	if slices.Sort(guessed); len(guessed) > 0 {
		y.line("# The resources of these kinds are guessed; name a cluster that serves them by --kubeconfig:")
		for _, kind := range guessed {
			y.line("#   %s", kind)
		}
	}
}

func (y *roles) account(a rights.Account) {
	y.metadata("v1", "ServiceAccount", a.Namespace, a.Name)
	y.line("automountServiceAccountToken: false # no pod runs as it: the host impersonates it")
}

// metadata begins an object, after the one before.
func (y *roles) metadata(apiVersion, kind, namespace, name string) {
	if y.begun {
		y.line("---")
	}
	y.begun = true
	y.line("apiVersion: %s", apiVersion)
	y.line("kind: %s", kind)
	y.line("metadata:")
	y.line("  name: %s", rights.Quote(name))
	if namespace != "" {
		y.line("  namespace: %s", rights.Quote(namespace))
	}
	y.line("  labels:")
	y.line("    app.kubernetes.io/name: thole")
}

const rbacVersion = "rbac.authorization.k8s.io"

// rolesOf writes one role with its binding for each namespace of the rules, which are sorted.
func (y *roles) rolesOf(a rights.Account, name string, rules []rights.Rule) {
	for len(rules) > 0 {
		namespace := rules[0].Namespace
		n := slices.IndexFunc(rules, func(r rights.Rule) bool { return r.Namespace != namespace })
		if n < 0 {
			n = len(rules)
		}
		kind := "Role"
		if namespace == "" {
			kind = "ClusterRole"
		}
		y.metadata(rbacVersion+"/v1", kind, namespace, name)
		y.line("rules:")
		for _, r := range rules[:n] {
			y.rule(r)
		}
		y.metadata(rbacVersion+"/v1", kind+"Binding", namespace, name)
		y.line("roleRef: {apiGroup: %s, kind: %s, name: %s}", rbacVersion, kind, rights.Quote(name))
		y.line("subjects:")
		y.line("  - {kind: ServiceAccount, name: %s, namespace: %s}", rights.Quote(a.Name), rights.Quote(a.Namespace))
		rules = rules[n:]
	}
}

// rule writes a rule, after what it is for.
func (y *roles) rule(r rights.Rule) {
	for _, use := range r.Uses {
		y.line("  # %s", use)
	}
	if r.OnlyIf != "" {
		y.line("  # Only needed if %s.", r.OnlyIf)
	}
	if y.guessed(r) {
		y.line("  # The resource is guessed.")
	}
	y.line("  - apiGroups: %s", flow(r.Group))
	y.line("    resources: %s", flow(r.Path()))
	if r.Name != "" {
		y.line("    resourceNames: %s", flow(r.Name))
	}
	y.line("    verbs: %s", flow(r.Verbs...))
}

// flow returns a list as YAML.
func flow(words ...string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = rights.Quote(word)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}
