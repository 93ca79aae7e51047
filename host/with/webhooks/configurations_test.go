package webhooks

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	contract "github.com/thole-dev/thole/abi/webhooks"
	"github.com/thole-dev/thole/host/object"
)

func reviewedPlugin() Plugin {
	w := NewSettings()
	return Plugin{Name: "gate", Webhooks: w, Leads: func() bool { return true }, Reviewed: []Reviewed{{
		Controller: "main", Validate: []contract.Operation{contract.OperationCreate, contract.OperationDelete}, Mutate: []contract.Operation{contract.OperationUpdate}, Convert: true,
		Resource: object.Resource{GVR: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "gates"}, Namespaced: true},
	}}}
}

var inCluster = Endpoint{Service: Service{Namespace: "ns", Name: "svc", Port: 443}}

// yamlOf returns what there is to be, as YAML.
func yamlOf(t *testing.T, p Plugin, e Endpoint) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for at, o := range configurations(p, e, "h", "host", []byte("CA")) {
		text, err := yaml.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		texts[at.String()] = string(text)
	}
	return texts
}

func TestConfigurationsOfAPlugin(t *testing.T) {
	got := yamlOf(t, reviewedPlugin(), inCluster)
	for at, want := range map[string]string{
		"ValidatingWebhookConfiguration thole-gate": `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata:
  labels:
    app.kubernetes.io/managed-by: thole
    app.kubernetes.io/name: thole
    thole.dev/host: h
    thole.dev/plugin: gate
  name: thole-gate
webhooks:
- admissionReviewVersions:
  - v1
  clientConfig:
    caBundle: Q0E=
    service:
      name: svc
      namespace: ns
      path: /validate/gate/main
      port: 443
  failurePolicy: Fail
  matchPolicy: Equivalent
  name: main.gate.thole.dev
  rules:
  - apiGroups:
    - example.com
    apiVersions:
    - v1
    operations:
    - CREATE
    - DELETE
    resources:
    - gates
    scope: Namespaced
  sideEffects: None
  timeoutSeconds: 5
`,
		"CustomResourceDefinition gates.example.com": `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  labels:
    thole.dev/host: h
  name: gates.example.com
spec:
  conversion:
    strategy: Webhook
    webhook:
      clientConfig:
        caBundle: Q0E=
        service:
          name: svc
          namespace: ns
          path: /convert/gate/main
          port: 443
      conversionReviewVersions:
      - v1
`,
	} {
		if got[at] != want {
			t.Errorf("%s is\n%s", at, got[at])
		}
	}
	mutating := strings.NewReplacer("Validating", "Mutating", "/validate/", "/mutate/", "    - CREATE\n    - DELETE\n", "    - UPDATE\n", "  rules:\n", "  reinvocationPolicy: Never\n  rules:\n").
		Replace(got["ValidatingWebhookConfiguration thole-gate"])
	if is := got["MutatingWebhookConfiguration thole-gate"]; len(got) != 3 || is != mutating {
		t.Errorf("the MutatingWebhookConfiguration is\n%s\nwant\n%s", is, mutating)
	}
	ignoring := reviewedPlugin()
	ignoring.Webhooks.FailurePolicy = IgnoreFailure // also counts while the host cannot be asked
	for at, text := range yamlOf(t, ignoring, inCluster) {
		if want := got[at]; text != strings.ReplaceAll(want, "failurePolicy: Fail", "failurePolicy: Ignore") {
			t.Errorf("with Ignore %s is\n%s", at, text)
		}
	}
}

func TestHostOutsideOfTheClusterIsReachedByURL(t *testing.T) {
	e := Endpoint{URL: "https://host.example:9443/"}
	got := yamlOf(t, reviewedPlugin(), e)
	if text := got["ValidatingWebhookConfiguration thole-gate"]; !strings.Contains(text, "url: https://host.example:9443/validate/gate/main\n") || strings.Contains(text, "service:") {
		t.Errorf("got %s", text)
	}
	if hosts := fmt.Sprint(e.Hosts()); hosts != "[host.example]" {
		t.Error(hosts)
	}
	if hosts := fmt.Sprint(inCluster.Hosts()); hosts != "[svc.ns.svc svc.ns.svc.cluster.local svc.ns]" {
		t.Error(hosts)
	}
}

func TestPolicyAndManifestSelectTogether(t *testing.T) {
	p := reviewedPlugin()
	p.Webhooks.NamespaceSelector, p.Webhooks.ObjectSelector = "team in (a, b)", "tier=web"
	p.Webhooks.MatchConditions = MatchConditions{{Name: "c", Expression: "true"}}
	p.Reviewed[0].Namespaces, p.Reviewed[0].Labels = []string{"x", "y"}, "app=gate,!old"
	namespaces, objects := selectors(p, p.Reviewed[0], "host")
	if got := fmt.Sprint(namespaces.MatchExpressions); got != "[{team In [a b]} {kubernetes.io/metadata.name In [x y]}]" {
		t.Errorf("namespaces %s", got)
	}
	if got := fmt.Sprint(objects.MatchExpressions); got != "[{tier In [web]} {app In [gate]} {old DoesNotExist []}]" {
		t.Errorf("objects %s", got)
	}
	if text := yamlOf(t, p, inCluster)["MutatingWebhookConfiguration thole-gate"]; !strings.Contains(text, "matchConditions:\n  - expression: \"true\"\n    name: c\n") {
		t.Errorf("got %s", text)
	}
	p.Reviewed[0].Resource.Namespaced = false
	if namespaces, _ := selectors(p, p.Reviewed[0], "host"); len(namespaces.MatchExpressions) != 1 {
		t.Errorf("a cluster-scoped kind has %v", namespaces)
	}
}

// Otherwise a host that does not run could keep its own pods from being created.
func TestBuiltInKindsAreReviewedNeitherInKubeSystemNorBesideTheHost(t *testing.T) {
	const exempt = "{kubernetes.io/metadata.name NotIn [host kube-system]}"
	for name, test := range map[string]struct {
		group      string
		namespaced bool
		follows    []string
		want       string
	}{
		"pods":          {"", true, nil, "[" + exempt + "]"},
		"deployments":   {"apps", true, nil, "[" + exempt + "]"},
		"ingresses":     {"networking.k8s.io", true, nil, "[" + exempt + "]"},
		"in namespaces": {"apps", true, []string{"a"}, "[{kubernetes.io/metadata.name In [a]} " + exempt + "]"},
		"nodes":         {"", false, nil, "[]"},
		"custom":        {"example.com", true, nil, "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			p := reviewedPlugin()
			c := &p.Reviewed[0]
			c.Resource.GVR.Group, c.Resource.Namespaced, c.Namespaces = test.group, test.namespaced, test.follows
			namespaces, _ := selectors(p, *c, "host")
			if namespaces == nil {
				namespaces = &metav1.LabelSelector{}
			}
			if got := fmt.Sprint(namespaces.MatchExpressions); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestPluginWithoutAPolicyForWebhooksHasNoConfigurations(t *testing.T) {
	p := reviewedPlugin()
	p.Webhooks = nil
	if got := yamlOf(t, p, inCluster); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}

func TestPluginThatIsBeingStartedConvertsAlone(t *testing.T) {
	p := reviewedPlugin()
	p.Starting = true
	if got := yamlOf(t, p, inCluster); len(got) != 1 || got["CustomResourceDefinition gates.example.com"] == "" {
		t.Errorf("got %v", got)
	}
}

func TestAPIServerWaitsLongerThanThePluginMayExecute(t *testing.T) {
	for timeout, want := range map[string]string{"1s": "4s", "2s": "5s", "2500ms": "5s", "10s": "13s", "27s": "30s", "30s": "30s"} {
		w := NewSettings()
		if err := w.Timeout.UnmarshalText([]byte(timeout)); err != nil {
			t.Fatal(err)
		}
		if got := Patience(w).String(); got != want {
			t.Errorf("%s: %s", timeout, got)
		}
	}
}
