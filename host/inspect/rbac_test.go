package inspect

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"
	"pgregory.net/rapid"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/rights"
	"github.com/thole-dev/thole/host/sanitize"
)

// Whatever a module or an API server names, what is printed is a role with that rule.
func TestPrintedRolesAreYAMLWhateverIsInThem(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		word := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "a\n---\nkind: ClusterRoleBinding", "'", "# x", "*", "no", "a: b", "{}", "\u2028", "\xff", "!!binary x"}))
		rule := rights.Rule{
			Group: word.Draw(rt, "group"), Resource: word.Draw(rt, "resource"), Name: word.Draw(rt, "name"),
			Verbs: []string{word.Draw(rt, "verb")}, Uses: []string{word.Draw(rt, "use")}, OnlyIf: word.Draw(rt, "condition"),
		}
		guessed := rapid.Bool().Draw(rt, "guessed")
		y := &roles{guessed: func(rights.Rule) bool { return guessed }}
		y.rolesOf(robot, "thole:p", []rights.Rule{rule})
		printed := documents(t, y.Bytes())
		if len(printed) != 2 || printed[0].GetKind() != "ClusterRole" || printed[1].GetKind() != "ClusterRoleBinding" {
			rt.Fatalf("%s", y)
		}
		var role rbacv1.ClusterRole
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(printed[0].Object, &role, true); err != nil {
			rt.Fatal(err)
		}
		want := rbacv1.PolicyRule{APIGroups: []string{sanitize.Line(rule.Group)}, Resources: []string{sanitize.Line(rule.Resource)}, Verbs: []string{sanitize.Line(rule.Verbs[0])}}
		if rule.Name != "" {
			want.ResourceNames = []string{sanitize.Line(rule.Name)}
		}
		if len(role.Rules) != 1 || role.Rules[0].String() != want.String() {
			rt.Fatalf("%s is %+v, want %+v", y, role.Rules, want)
		}
	})
}

// What is printed for several plugins, accounts, hosts and namespaces can be applied to one cluster.
func TestPrintedObjectsOfTheSameNameAreTheSame(t *testing.T) {
	r, o := tested(t, nil)
	seen := map[string]string{}
	for _, r.Name = range []string{"p", "q"} {
		for _, o.Account = range []rights.Account{robot, {Namespace: "team", Name: "other"}, {Namespace: "b", Name: "robot"}} {
			for _, o.HostAccount = range []rights.Account{hostRobot, {Namespace: "b", Name: "thole"}} {
				text, err := r.RBAC(o)
				ok(t, err)
				again, _ := r.RBAC(o)
				if string(again) != string(text) {
					t.Errorf("%s\nand then\n%s", text, again)
				}
				for document := range strings.SplitSeq(string(text), "\n---\n") {
					document = document[strings.Index(document, "apiVersion:"):]
					at := documents(t, []byte(document))[0]
					key := at.GetKind() + " " + at.GetNamespace() + "/" + at.GetName()
					if before, known := seen[key]; known && strings.TrimSpace(before) != strings.TrimSpace(document) {
						t.Errorf("%s is\n%s\nand\n%s", key, before, document)
					}
					seen[key] = document
				}
			}
		}
	}
}

func TestConstrainedImpersonationIsByTheVersionOfTheServer(t *testing.T) {
	for version, want := range map[string]bool{
		"v1.30.1": false, "v1.35.9+k3s1": false, "v1.36.0": true, "v1.36.3-gke.100": true, "v1.40.0": true, "v2.0.0": true,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(map[string]string{"gitVersion": version})
		}))
		t.Cleanup(server.Close)
		if got, err := HasConstrainedImpersonation(&rest.Config{Host: server.URL, Transport: server.Client().Transport}); err != nil || got != want {
			t.Errorf("%s: %t, %v", version, got, err)
		}
	}
}

// parcels is the section of a capability.
type parcels struct {
	To []string `json:"to,omitempty"` // Secrets
}

func (*parcels) Problems(*field.Path, string, config.Ceiling) []error { return nil }

func (p *parcels) Secrets() (all []rights.SecretRef) {
	for _, name := range p.To {
		namespace, name, _ := strings.Cut(name, "/")
		all = append(all, rights.SecretRef{Namespace: namespace, Name: name})
	}
	return all
}

// withParcels are the sections of a host with that capability.
var withParcels = []config.Section{{
	Name: "parcels", New: func() config.PolicySection { return &parcels{} },
	Missing: func(_ config.PolicySection, written bool, m *abi.Manifest) config.MissingSection {
		if written || m.Controllers[0].Section("parcels") == nil {
			return config.MissingSection{}
		}
		return config.MissingSection{Value: &parcels{To: []string{"*"}}, Text: "{to: ['*']}"}
	},
}}

// The plugin's account reads the one Secret of a capability with a credential, and the host nothing of it but
// as that account.
func TestSecretsOfCapabilitiesAreInTheRoles(t *testing.T) {
	r, o := tested(t, nil)
	o.Policy.Sections = map[string]config.PolicySection{"parcels": &parcels{To: []string{"vault/api", "vault/api"}}}
	for _, o.Constrained = range []bool{false, true} {
		text, err := r.RBAC(o)
		ok(t, err)
		const rule = `  namespace: vault
  labels:
    app.kubernetes.io/name: thole
rules:
  # get: send the credential of another system
  - apiGroups: ['']
    resources: [secrets]
    resourceNames: [api]
    verbs: [get]
`
		if strings.Count(string(text), rule) != 1 || strings.Contains(string(text), "impersonate-on:serviceaccount:get'") != o.Constrained {
			t.Errorf("constrained %v: %s", o.Constrained, text)
		}
	}
}

func TestRolesAreOfThePolicyOrThereAreNone(t *testing.T) {
	r, o := tested(t, nil)
	for name, c := range map[string]struct {
		change func(*Report, *RBACOptions)
		want   string
	}{
		"a refused plugin":           {func(r *Report, _ *RBACOptions) { r.Load = Load{Error: "it is broken"} }, "it is broken"},
		"a policy that is too small": {func(_ *Report, o *RBACOptions) { o.Policy.Allow = o.Policy.Allow[1:] }, "write to p.yaml, beside the module, and leave its other fields as they are: {apiVersion: thole.dev/v1alpha1, allow: ["},
		"a ceiling that is, too": {func(_ *Report, o *RBACOptions) {
			o.Policy.Allow, o.Host.Allow = o.Policy.Allow[1:], config.Ceiling{}
		}, "; and to the file of --config: {allow: {entries: {p: ["},
		"another module": {func(_ *Report, o *RBACOptions) { o.Policy.Digest = "sha256:0" }, "pins another module"},
		"no namespace that it may follow": {func(r *Report, o *RBACOptions) {
			m := *r.manifest
			m.Controllers = slices.Clone(m.Controllers)
			m.Controllers[0].For.Namespaces = []string{"elsewhere"}
			r.manifest, o.Policy.Namespaces = &m, []string{"a"}
		}, "none of those that the plugin may follow"},
	} {
		t.Run(name, func(t *testing.T) {
			report, options := *r, o
			c.change(&report, &options)
			if text, err := report.RBAC(options); err == nil || !strings.Contains(err.Error(), c.want) || text != nil {
				t.Errorf("%s, %v, want %q", text, err, c.want)
			}
		})
	}
}
