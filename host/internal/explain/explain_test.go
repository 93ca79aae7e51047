package explain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"reflect"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

func TestMissingRightIsParsedFromTheMessage(t *testing.T) {
	for message, want := range map[string]string{
		`configmaps "c" is forbidden: User "system:serviceaccount:x:y" cannot patch resource "configmaps" in API group "" in the namespace "default"`:                                                `"system:serviceaccount:x:y" lacks a right: add to a Role in namespace "default" the rule {apiGroups: [''], resources: ['configmaps'], verbs: ['patch']}`,
		`x is forbidden: User "u" cannot patch resource "widgets/status" in API group "test.thole.dev" at the cluster scope: no rule`:                                                                `"u" lacks a right: add to a ClusterRole the rule {apiGroups: ['test.thole.dev'], resources: ['widgets/status'], verbs: ['patch']}`,
		`serviceaccounts "p" is forbidden: User "host" cannot impersonate resource "serviceaccounts" in API group "" in the namespace "a"`:                                                           `"host", which is the host and acts as another user, lacks a right: add to a Role in namespace "a" the rule {apiGroups: [''], resources: ['serviceaccounts'], verbs: ['impersonate']}`,
		`serviceaccounts.authentication.k8s.io "p" is forbidden: User "host" cannot impersonate:serviceaccount resource "serviceaccounts" in API group "authentication.k8s.io" in the namespace "a"`: `"host", which is the host and acts as another user, lacks a right: add to a Role in namespace "a" the rule {apiGroups: ['authentication.k8s.io'], resources: ['serviceaccounts'], verbs: ['impersonate:serviceaccount']}`,
		`configmaps "c" is forbidden: User "host" cannot impersonate-on:serviceaccount:patch resource "configmaps/status" in API group "" at the cluster scope: no rule`:                             `"host", which is the host and acts as another user, lacks a right: add to a ClusterRole the rule {apiGroups: [''], resources: ['configmaps/status'], verbs: ['impersonate-on:serviceaccount:patch']}`,
		`pods is forbidden: User "system:anonymous" cannot list resource "pods" in API group "" at the cluster scope`:                                                                                `the request was not authenticated ("system:anonymous"): check the credentials in the kubeconfig`,
		`pods "p" is forbidden: exceeded quota: few, requested: pods=1, used: pods=1, limited: pods=1`:                                                                                               ``,
	} {
		right, ok := MissingRight(message)
		if ok != (want != "") || ok && right.Advice() != want {
			t.Errorf("%s\n got %v, %v\nwant %s", message, right, ok, want)
		}
	}
}

func TestAdviceNamesAllVerbs(t *testing.T) {
	right := Right{User: "u", Verb: "watch", Resource: "pods"}
	const want = `"u" lacks a right: add to a ClusterRole the rule {apiGroups: [''], resources: ['pods'], verbs: ['list', 'watch']}`
	if got := right.Advice("list", "watch"); got != want {
		t.Errorf("got %s", got)
	}
}

// /plugins and the log are JSON, which escapes double quotes.
func TestAdviceIsTheSameInJSON(t *testing.T) {
	rights := []Right{
		{Verb: "impersonate:serviceaccount", Group: "authentication.k8s.io", Resource: "serviceaccounts", Namespace: "a", Name: "p"},
		{Verb: "patch", Resource: "configmaps/status"},
	}
	for _, right := range rights {
		text, err := json.Marshal(right.Advice())
		if err != nil {
			t.Fatal(err)
		}
		_, rule, _ := strings.Cut(strings.Trim(string(text), `"`), "the rule ")
		var got rbacv1.PolicyRule
		if err := yaml.UnmarshalStrict([]byte(rule), &got); err != nil {
			t.Fatalf("%s: %v", rule, err)
		}
		want := rbacv1.PolicyRule{APIGroups: []string{right.Group}, Resources: []string{right.Resource}, Verbs: []string{right.Verb}}
		if right.Name != "" {
			want.ResourceNames = []string{right.Name}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %+v", rule, got)
		}
	}
}

// The verbs are those of the request that was refused, not of the one that the host wants
// to send as another user.
func TestAdviceOfImpersonationHasItsOwnVerb(t *testing.T) {
	for _, verb := range []string{"impersonate", "impersonate:serviceaccount", "impersonate-on:serviceaccount:list"} {
		right := Right{User: "u", Verb: verb, Resource: "serviceaccounts", Namespace: "a"}
		want := `"u", which is the host and acts as another user, lacks a right: add to a Role in namespace "a" the rule {apiGroups: [''], resources: ['serviceaccounts'], verbs: ['` + verb + `']}`
		if got := right.Advice("list", "watch"); got != want {
			t.Errorf("got %s", got)
		}
	}
}

func TestUnreachableNamesServerAndCause(t *testing.T) {
	local := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 40000}
	reset := &net.OpError{Op: "read", Net: "tcp", Source: local, Err: errors.New("connection reset by peer")}
	for _, c := range []struct {
		err  error
		want string
	}{
		{&url.Error{Op: "Get", URL: "https://10.0.0.1:443/api/v1", Err: reset}, "the API server at 10.0.0.1:443 cannot be reached (connection reset by peer)"},
		{fmt.Errorf("look up v1 Pod: %w", &url.Error{Op: "Get", URL: "https://k/api/v1", Err: io.EOF}), "the API server at k cannot be reached (EOF)"},
		{errors.New("refused"), ""},
	} {
		if got, ok := Unreachable(c.err); got != c.want || ok != (c.want != "") {
			t.Errorf("%v: %q, %v", c.err, got, ok)
		}
	}
}

func TestForbiddenAddsTheRuleToAMissingRightAlone(t *testing.T) {
	const refusal = `User "u" cannot watch resource "pods" in API group "" at the cluster scope`
	missing := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New(refusal))
	err := Forbidden(missing, "list", "watch")
	if !strings.Contains(err.Error(), `verbs: ['list', 'watch']`) || !errors.Is(err, missing) {
		t.Errorf("got %v", err)
	}
	for name, err := range map[string]error{
		"a full quota":       apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "p", errors.New("exceeded quota: few")),
		"another error":      errors.New(refusal),
		"no connection":      io.EOF,
		"a missing resource": apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "p"),
	} {
		if got := Forbidden(err); got.Error() != err.Error() {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// invalidApply returns an error as the API server makes it of one that has no reason.
func invalidApply(message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 500, Message: message}}
}

func TestOutagesAreErrorsThatSayNothingAboutTheRequest(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"no connection":           {&url.Error{Op: "Get", URL: "https://k", Err: errors.New("connection refused")}, true},
		"a connection that broke": {fmt.Errorf("look up v1 Pod: %w", &net.OpError{Op: "read", Err: errors.New("reset by peer")}), true},
		"half a body":             {fmt.Errorf("read body: %w", io.ErrUnexpectedEOF), true},
		"no response in time":     {fmt.Errorf("wait: %w", context.DeadlineExceeded), true},
		"429":                     {apierrors.NewTooManyRequests("slow down", 1), true},
		"500":                     {apierrors.NewInternalError(errors.New("etcd is away")), true},
		"503":                     {apierrors.NewServiceUnavailable("starting"), true},
		"504":                     {apierrors.NewTimeoutError("took too long", 1), true},
		"wrapped 503":             {fmt.Errorf("get: %w", apierrors.NewServiceUnavailable("starting")), true},
		"an apply of two keys":    {invalidApply("failed to create typed patch object (/z; /v1, Kind=Pod): .spec.hostAliases: duplicate entries for key [ip=\"1\"]"), false},
		"another 500":             {invalidApply("etcdserver: no leader"), true},
		"a webhook that fails":    {apierrors.NewInternalError(errors.New(`failed calling webhook "x.example.com": connection refused`)), false},
		"a conversion that fails": {apierrors.NewInternalError(errors.New("conversion webhook for example.com/v1, Kind=X failed")), false},
		"403":                     {apierrors.NewForbidden(pods, "p", errors.New("no")), false},
		"404":                     {apierrors.NewNotFound(pods, "p"), false},
		"409":                     {apierrors.NewConflict(pods, "p", errors.New("modified")), false},
		"410":                     {apierrors.NewResourceExpired("too old"), false},
		"422":                     {apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "p", nil), false},
		"an error of the host":    {errors.New("the kind is not declared"), false},
	} {
		if got := Outage(c.err); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
