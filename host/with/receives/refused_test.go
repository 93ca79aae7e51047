package receives

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	contract "github.com/thole-dev/thole/abi/receives"
	"github.com/thole-dev/thole/host/access"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/devcluster"
	"github.com/thole-dev/thole/host/kube"
)

// cluster is a real API server with RBAC, with the namespaces a and b.
type cluster struct {
	*testing.T
	*kubernetes.Clientset
	config *rest.Config
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	config := rest.CopyConfig(devcluster.Shared(t).Config)
	config.QPS = -1
	c := &cluster{t, kubernetes.NewForConfigOrDie(config), config}
	for _, name := range []string{"a", "b"} {
		_, err := c.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		c.must(err)
	}
	return c
}

func (c *cluster) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// account creates a service account with rules in the namespace a, and returns a token for an audience.
func (c *cluster) account(name, audience string, rules ...rbacv1.PolicyRule) (token string) {
	c.Helper()
	in, meta := c.CoreV1().ServiceAccounts("a"), metav1.ObjectMeta{Name: name, Namespace: "a"}
	_, err := in.Create(c.Context(), &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
	c.must(err)
	if len(rules) > 0 {
		_, err = c.RbacV1().Roles("a").Create(c.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
		c.must(err)
		_, err = c.RbacV1().RoleBindings("a").Create(c.Context(), &rbacv1.RoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "a", Name: name}},
		}, metav1.CreateOptions{})
		c.must(err)
	}
	return c.token(name, audience)
}

func (c *cluster) token(account, audience string) string {
	c.Helper()
	request := &authenticationv1.TokenRequest{}
	if audience != "" {
		request.Spec.Audiences = []string{audience}
	}
	t, err := c.CoreV1().ServiceAccounts("a").CreateToken(c.Context(), account, request, metav1.CreateOptions{})
	c.must(err)
	return t.Status.Token
}

func reconcileRule(resource string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: []string{access.Reconcile}, APIGroups: []string{"lab.example"}, Resources: []string{resource}, ResourceNames: names}
}

// endless is a body that has no end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	return copy(p, bytes.Repeat([]byte(" "), len(p))), nil
}

// trickling is a body that has no end either, and never becomes too large.
type trickling struct{}

func (trickling) Read(p []byte) (int, error) {
	<-time.After(10 * time.Millisecond)
	return copy(p, " "), nil
}

// silent returns a body that sends nothing until it is closed.
func silent() io.Reader {
	r, _ := io.Pipe()
	return r
}

// TestBadRequestsAreRefusedAndQueueNothing asks a real API server whose the tokens are, and what they
// may do.
func TestBadRequestsAreRefusedAndQueueNothing(t *testing.T) {
	c := newCluster(t)
	tokens := map[string]string{
		"good":     c.account("good", "thole.dev", reconcileRule("labs")),
		"by-name":  c.account("by-name", "thole.dev", reconcileRule("labs", "shop")),
		"verb":     c.account("verb", "thole.dev", rbacv1.PolicyRule{Verbs: []string{"get", "update", "patch"}, APIGroups: []string{"lab.example"}, Resources: []string{"labs"}}),
		"resource": c.account("resource", "thole.dev", reconcileRule("others"), rbacv1.PolicyRule{Verbs: []string{"*"}, APIGroups: []string{"example.lab"}, Resources: []string{"labs"}}),
		"none":     c.account("none", "thole.dev"),
		"audience": c.token("good", "other.dev"),
		"default":  c.token("good", ""),
		"deleted":  c.account("deleted", "thole.dev", reconcileRule("labs")),
	}
	c.must(c.CoreV1().ServiceAccounts("a").Delete(t.Context(), "deleted", metav1.DeleteOptions{}))
	clients, err := kube.New(c.config)
	c.must(err)
	w := newWorld(t, func(config *Config, _ *world) {
		config.Tokens, config.Access = clients.TokenReviews, access.New(access.Config{Reviews: clients.AccessReviews, DeniedFor: time.Millisecond})
	})
	await.Until(t, "the roles count", func() bool {
		first, _, _ := w.send(post{token: tokens["good"], header: []string{"Content-Type: " + structured}, body: ce()})
		second, _, _ := w.send(post{token: tokens["by-name"], header: []string{"Content-Type: " + structured}, body: ce()})
		return first == http.StatusAccepted && second == http.StatusAccepted
	})
	clear(w.labs.signals)

	json, batched := []string{"Content-Type: " + structured}, []string{"Content-Type: " + batch}
	binary := func(lines ...string) []string {
		return append([]string{"ce-specversion: 1.0", "ce-id: 1", "ce-source: /s", "ce-type: " + started1, "ce-subject: a/shop"}, lines...)
	}
	large := strings.Repeat("x", contract.MaxEvent)
	for _, test := range []struct {
		name   string
		status int
		token  string // of tokens
		post   post
	}{
		{"no token", 401, "", post{header: json, body: ce()}},
		{"an empty token", 401, "", post{header: append(json, "Authorization: Bearer "), body: ce()}},
		{"basic authentication", 401, "", post{header: append(json, "Authorization: Basic YTpi"), body: ce()}},
		{"a garbage token", 401, "", post{token: "garbage", header: json, body: ce()}},
		{"a token with spaces", 401, "", post{header: append(json, "Authorization: Bearer a b"), body: ce()}},
		{"a token of many bytes", 401, "", post{token: strings.Repeat("x", 8<<10+1), header: json, body: ce()}},
		{"a changed token", 401, "", post{token: tokens["good"][:len(tokens["good"])-9] + "AAAAAAAAA", header: json, body: ce()}},
		{"an unsigned token", 401, "", post{token: unsigned(tokens["good"]), header: json, body: ce()}},
		{"two tokens", 401, "good", post{header: append(json, "Authorization: Bearer "+tokens["none"]), body: ce()}},
		{"a token for another audience", 401, "audience", post{header: json, body: ce()}},
		{"a token for the API server", 401, "default", post{header: json, body: ce()}},
		{"a token of an account that is gone", 401, "deleted", post{header: json, body: ce()}},
		{"no token, and an endless body", 401, "", post{header: json, reader: func() io.Reader { return endless{} }}},
		{"no right", 403, "none", post{header: json, body: ce()}},
		{"a right to other verbs", 403, "verb", post{header: json, body: ce()}},
		{"a right to another resource", 403, "resource", post{header: json, body: ce()}},
		{"another namespace", 403, "good", post{header: json, body: ce("subject", `"b/shop"`)}},
		{"another name", 403, "by-name", post{header: json, body: ce("subject", `"a/cafe"`)}},
		{"another name that is not there", 403, "by-name", post{header: json, body: ce("subject", `"a/nothing"`)}},
		{"an object of the cluster", 403, "good", post{header: json, body: ce("type", `"`+drained+`"`, "subject", `"node-1"`)}},
		{"an object that is not there", 404, "good", post{header: json, body: ce("subject", `"a/nothing"`)}},
		{"objects by an index in another namespace", 404, "good", post{header: json, body: ce("type", `"`+stopped1+`"`, "data", `{"ids":["c3"]}`)}},
		{"objects by an unknown key", 404, "good", post{header: json, body: ce("type", `"`+stopped1+`"`, "data", `{"ids":["c9"]}`)}},
		{"no key", 404, "good", post{header: json, body: ce("type", `"`+stopped1+`"`)}},
		{"too many keys", 413, "good", post{header: json, body: ce("type", `"`+stopped1+`"`, "data", `{"ids":[`+manyIDs(maxValues+1)+`]}`)}},
		{"an unknown type", 404, "good", post{header: json, body: ce("type", `"com.example.unknown"`)}},
		{"a type in another case", 404, "good", post{header: json, body: ce("type", `"`+strings.ToUpper(started1)+`"`)}},
		{"an unknown schema", 404, "good", post{header: json, body: ce("type", `"x"`, "dataschema", `"https://example.com/other"`)}},
		{"a plugin that receives nothing", 404, "good", post{path: "/events/nothing", header: json, body: ce()}},
		{"another path", 404, "good", post{path: "/events/lab/more", header: json, body: ce()}},
		{"GET", 405, "good", post{method: http.MethodGet, header: json}},
		{"PUT", 405, "good", post{method: http.MethodPut, header: json, body: ce()}},
		{"OPTIONS of a browser", 405, "", post{method: http.MethodOptions, header: []string{"Origin: https://evil.example"}}},
		{"no content type", 415, "good", post{body: ce()}},
		{"JSON", 415, "good", post{header: []string{"Content-Type: application/json"}, body: ce()}},
		{"XML", 415, "good", post{header: []string{"Content-Type: application/cloudevents+xml"}, body: ce()}},
		{"two content types", 415, "good", post{header: append(json, "Content-Type: "+batch), body: ce()}},
		{"an unreadable content type", 415, "good", post{header: []string{"Content-Type: " + structured + "; a"}, body: ce()}},
		{"UTF-16", 415, "good", post{header: []string{"Content-Type: " + structured + "; charset=utf-16"}, body: ce()}},
		{"gzip", 415, "good", post{header: append(json, "Content-Encoding: gzip"), body: "\x1f\x8b"}},
		{"an empty body", 400, "good", post{header: json}},
		{"no JSON", 400, "good", post{header: json, body: "event"}},
		{"half of it", 400, "good", post{header: json, body: ce()[:40]}},
		{"two events", 400, "good", post{header: json, body: ce() + ce()}},
		{"an array", 400, "good", post{header: json, body: "[" + ce() + "]"}},
		{"null", 400, "good", post{header: json, body: "null"}},
		{"deep", 400, "good", post{header: json, body: ce("data", strings.Repeat("[", 5000)+strings.Repeat("]", 5000))}},
		{"no UTF-8", 400, "good", post{header: json, body: ce("id", "\"\xff\"")}},
		{"version 0.3", 400, "good", post{header: json, body: ce("specversion", `"0.3"`)}},
		{"no version", 400, "good", post{header: json, body: ce("specversion", "")}},
		{"a version that is a number", 400, "good", post{header: json, body: ce("specversion", "1.0")}},
		{"no id", 400, "good", post{header: json, body: ce("id", "")}},
		{"an empty id", 400, "good", post{header: json, body: ce("id", `""`)}},
		{"an id that is null", 400, "good", post{header: json, body: ce("id", `null`)}},
		{"no source", 400, "good", post{header: json, body: ce("source", "")}},
		{"no type", 400, "good", post{header: json, body: ce("type", "")}},
		{"a type that is a number", 400, "good", post{header: json, body: ce("type", "5")}},
		{"a time that is none", 400, "good", post{header: json, body: ce("time", `"yesterday"`)}},
		{"a schema that is no URI", 400, "good", post{header: json, body: ce("dataschema", `"::"`)}},
		{"the id twice", 400, "good", post{header: json, body: `{"id":"2",` + ce()[1:]}},
		{"the subject twice", 400, "good", post{header: json, body: `{"subject":"b/shop",` + ce()[1:]}},
		{"the subject twice, escaped", 400, "good", post{header: json, body: `{"s\u0075bject":"b/shop",` + ce()[1:]}},
		{"an attribute in capitals", 400, "good", post{header: json, body: ce("Subject", `"b/shop"`)}},
		{"an attribute without a name", 400, "good", post{header: json, body: ce("", "1")}},
		{"an attribute that is an object", 400, "good", post{header: json, body: ce("x", "{}")}},
		{"data twice", 400, "good", post{header: json, body: ce("data", "1", "data_base64", `""`)}},
		{"data_base64 that is a number", 400, "good", post{header: json, body: ce("data_base64", "5")}},
		{"data_base64 that is none", 400, "good", post{header: json, body: ce("data_base64", `"*"`)}},
		{"no subject", 400, "good", post{header: json, body: ce("subject", "")}},
		{"an empty subject", 400, "good", post{header: json, body: ce("subject", `""`)}},
		{"a subject without a namespace", 400, "good", post{header: json, body: ce("subject", `"shop"`)}},
		{"a subject with an empty namespace", 400, "good", post{header: json, body: ce("subject", `"/shop"`)}},
		{"a subject with an empty name", 400, "good", post{header: json, body: ce("subject", `"a/"`)}},
		{"a subject with slashes", 400, "good", post{header: json, body: ce("subject", `"a/labs/shop"`)}},
		{"a subject with ..", 400, "good", post{header: json, body: ce("subject", `"a/.."`)}},
		{"a namespace ..", 400, "good", post{header: json, body: ce("subject", `"../shop"`)}},
		{"a subject with %", 400, "good", post{header: json, body: ce("subject", `"a/%2e%2e"`)}},
		{"a subject with a line", 400, "good", post{header: json, body: ce("subject", `"a/shop\n"`)}},
		{"a subject with zero", 400, "good", post{header: json, body: ce("subject", `"a/shop\u0000"`)}},
		{"a long subject", 400, "good", post{header: json, body: ce("subject", `"a/`+strings.Repeat("x", 254)+`"`)}},
		{"a subject with a star", 403, "by-name", post{header: json, body: ce("subject", `"a/*"`)}},
		{"binary without a version", 400, "good", post{header: binary()[1:]}},
		{"binary of version 0.3", 400, "good", post{header: append(binary()[1:], "ce-specversion: 0.3")}},
		{"binary without an id", 400, "good", post{header: append(binary()[:1], binary()[2:]...)}},
		{"binary with two types", 400, "good", post{header: binary("ce-type: " + stopped1)}},
		{"binary with two subjects", 400, "good", post{header: binary("ce-subject: b/shop")}},
		{"binary with a schema that is no URI", 400, "good", post{header: binary("ce-dataschema: ::")}},
		{"binary with a name of an attribute that is none", 400, "good", post{header: binary("ce-my-ext: 1")}},
		{"binary with data that is no JSON", 400, "good", post{header: binary("Content-Type: application/json"), body: "{"}},
		{"binary with data that ends the event", 400, "good", post{header: binary("Content-Type: application/json"), body: `1,"x":2`}},
		{"a large event", 413, "good", post{header: json, body: ce("data", `"`+large+`"`)}},
		{"a large event in binary mode", 413, "good", post{header: binary("Content-Type: text/plain"), body: large}},
		{"an event that is large in JSON", 413, "good", post{header: binary("Content-Type: text/plain"), body: strings.Repeat("\x01", contract.MaxEvent/5)}},
		{"a large body", 413, "good", post{header: json, body: strings.Repeat(" ", MaxBody+1)}},
		{"a body without an end", 413, "good", post{header: json, reader: func() io.Reader { return endless{} }}},
		{"an empty batch", 400, "good", post{header: batched, body: "[]"}},
		{"a batch that is an event", 400, "good", post{header: batched, body: ce()}},
		{"a batch that does not end", 400, "good", post{header: batched, body: "[" + ce()}},
		{"a batch with a null", 400, "good", post{header: batched, body: "[" + ce() + ",null]"}},
		{"a batch of 257", 413, "good", post{header: batched, body: "[" + strings.Repeat(ce()+",", MaxBatch) + ce() + "]"}},
		{"a batch of 10,000", 413, "good", post{header: batched, body: "[" + strings.Repeat("{},", 9_999) + "{}]"}},
		{"a batch with a bad event", 400, "good", post{header: batched, body: "[" + ce() + "," + ce("id", "") + "]"}},
		{"a batch with an event of an unknown type", 404, "good", post{header: batched, body: "[" + ce() + "," + ce("type", `"x"`) + "]"}},
		{"a batch with an event for another namespace", 403, "good", post{header: batched, body: "[" + ce() + "," + ce("subject", `"b/shop"`) + "]"}},
		{"a batch with a large event", 413, "good", post{header: batched, body: "[" + ce() + "," + ce("data", `"`+large+`"`) + "]"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.token != "" {
				test.post.token = tokens[test.token]
			}
			status, header, text := w.send(test.post)
			if status != test.status {
				t.Errorf("%d %s, want %d", status, text, test.status)
			}
			if status == http.StatusUnauthorized && header.Get("WWW-Authenticate") != "Bearer" {
				t.Error("WWW-Authenticate is missing")
			}
			if strings.HasPrefix(test.name, "a batch with a") && test.name != "a batch with a null" && !strings.HasPrefix(text, "event 1: ") {
				t.Errorf("the error does not name the event: %s", text)
			}
			if got := w.signalled(); len(got) > 0 {
				t.Errorf("what runs: %v", got)
				clear(w.labs.signals)
			}
		})
	}
	w.expect(http.StatusAccepted, post{token: tokens["by-name"], header: json, body: ce()})
	w.expectSignalled(map[string]int{"labs a/shop": 1})
}

func manyIDs(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%q", fmt.Sprint(i))
	}
	return strings.Join(all, ",")
}

// unsigned returns a token with the same claims that states to need no signature.
func unsigned(token string) string {
	parts := strings.Split(token, ".")
	return "eyJhbGciOiJub25lIn0." + parts[1] + "."
}
