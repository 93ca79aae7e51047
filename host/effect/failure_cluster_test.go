package effect

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
)

// TestMissingRights grants the rights that the failures name, one after the
// other, until everything works.
func TestMissingRights(t *testing.T) {
	w := newCluster(t)
	account := "system:serviceaccount:" + w.ns + ":plugin"
	w.start(func(c *Config) {
		c.Impersonate = rest.ImpersonationConfig{UserName: account, Groups: []string{"system:authenticated"}}
	})
	target := w.owner(list(configMap), nil)
	w.create(roleBinding, fmt.Sprintf(`{"metadata":{"name":"r"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"r"},
"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":%q}]}`, account))
	var rules []string
	w.create(role, `{"metadata":{"name":"r"}}`)

	everything := func() *Failure {
		target.Object = w.live(widget, "w")
		if _, _, failure := w.EnsureFinalizer(t.Context(), target); failure != nil {
			return failure
		}
		if _, failure := w.Intents(t.Context(), target, apply(configObject, "v")); failure != nil {
			return failure
		}
		target.Object = w.live(widget, "w")
		_, _, failure := w.Status(t.Context(), target, ready("True", 1))
		return failure
	}
	for failure := everything(); failure != nil; failure = everything() {
		if failure.Class != abi.ClassDenied || failure.Reason != "Forbidden" {
			t.Fatalf("got %+v", failure)
		}
		start, end := strings.Index(failure.Message, "{apiGroups"), strings.Index(failure.Message, "}")
		if start < 0 || !strings.Contains(failure.Message, fmt.Sprintf("Role in namespace %q", w.ns)) || len(rules) == 10 {
			t.Fatalf("got %+v after %v", failure, rules)
		}
		rule := failure.Message[start : end+1]
		rules = append(rules, strings.NewReplacer("apiGroups", `"apiGroups"`, "resources", `"resources"`, "verbs", `"verbs"`).Replace(rule))
		w.edit(role, "r", "", `{"rules":[`+strings.Join(rules, ",")+`]}`)
		w.until("the authorizer knows the rule "+rule, func() bool {
			next := everything()
			return next == nil || next.Message != failure.Message
		})
	}
	want := []string{"patch widgets", "get configmaps", "patch configmaps", "create configmaps", "patch widgets/status"}
	if len(rules) != len(want) {
		t.Fatalf("rules are %v", rules)
	}
	for i, rule := range rules {
		verb, resource, _ := strings.Cut(want[i], " ")
		if !strings.Contains(rule, `["`+verb+`"]`) || !strings.Contains(rule, `["`+resource+`"]`) {
			t.Errorf("rule %d is %s, want %s", i, rule, want[i])
		}
	}
}

func TestRefusalsThatAreNoMissingRights(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(pod, configMap), nil)
	_, failure := w.Intents(t.Context(), target, apply(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"},"spec":{"containers":[]}}`))
	if failure == nil || failure.Class != abi.ClassRetry || failure.Reason != "Invalid" || !strings.Contains(failure.Message, "spec.containers") {
		t.Errorf("got %+v", failure)
	}
	if failure != nil && (failure.Verb != "apply" || failure.Ref != abi.Ref{APIVersion: "v1", Kind: "Pod", Namespace: w.ns, Name: "x"}) {
		t.Errorf("got %+v", failure)
	}
	w.create(configMap, `{"metadata":{"name":"holds","finalizers":["other.dev/x"]}}`)
	w.remove(namespace, w.ns)
	w.until("the namespace is being deleted", func() bool {
		_, failure = w.Intents(t.Context(), target, apply(configObject, "v"))
		return failure != nil
	})
	if failure.Class != abi.ClassRetry || !strings.Contains(failure.Message, "being terminated") {
		t.Errorf("got %+v", failure)
	}
	w.edit(configMap, "holds", "", `{"metadata":{"finalizers":null}}`)
}

// TestWebhookThatStampsEveryWrite: what a webhook changes counts as wanted,
// else the host and the webhook would write for ever.
func TestWebhookThatStampsEveryWrite(t *testing.T) {
	w := newCluster(t)
	var calls atomic.Int64
	server := httptest.NewTLSServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		body, _ := io.ReadAll(in.Body)
		uid, _ := rawjson.Lookup(body, "request", "uid")
		stamp := fmt.Sprintf(`[{"op":"add","path":"/data/stamp","value":"%d"},{"op":"replace","path":"/data/k","value":"webhook"}]`, calls.Add(1))
		out.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(out, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":%s,"allowed":true,"patchType":"JSONPatch","patch":%q}}`,
			uid, base64.StdEncoding.EncodeToString([]byte(stamp)))
	}))
	defer server.Close()
	server.TLS.MinVersion = tls.VersionTLS12
	ca, _ := json.Marshal(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	name := "stamp-" + w.ns
	w.create(webhook, fmt.Sprintf(`{"metadata":{"name":%[1]q},"webhooks":[{"name":"stamp.test.thole.dev","sideEffects":"None","admissionReviewVersions":["v1"],
"clientConfig":{"url":%[2]q,"caBundle":%[3]s},"rules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"],"operations":["CREATE","UPDATE"]}],
"objectSelector":{"matchLabels":{"stamped":%[1]q}}}]}`, name, server.URL, ca))
	defer w.remove(webhook, name)

	target := w.owner(list(configMap), nil)
	in := apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","labels":{"stamped":%q}},"data":{"k":"guest"}}`, name)
	w.until("the webhook is called", func() bool {
		w.start()
		w.intents(target, in)
		return field(w.seen(configMap, "c"), "data", "stamp") != ""
	})
	w.wire.take()
	for range 3 {
		w.intents(target, in)
		w.seen(configMap, "c")
	}
	w.expectSent()

	w.start()
	for range 3 {
		w.intents(target, in)
		w.seen(configMap, "c")
	}
	w.expectSent("GET /api/v1/namespaces/" + w.ns + "/configmaps/c")
}

var (
	role        = kind("rbac.authorization.k8s.io/v1", "Role", "roles", true, false)
	roleBinding = kind("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings", true, false)
	webhook     = kind("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", false, false)
)
