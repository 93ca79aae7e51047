// Package explain returns what errors of the API server mean, and what to do about
// them: a missing right, and a server that cannot be reached.
package explain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Host is the user of a [Right] that the host lacks, whatever its account is called.
const Host = "the host"

// anonymous is the user of a request without credentials.
const anonymous = "system:anonymous"

// Right is an RBAC right that a request would have needed.
type Right struct {
	User      string
	Verb      string
	Group     string // "" for the core group
	Resource  string // with its subresource: "pods/status"
	Namespace string // "" at the cluster scope
	Name      string // of the one object; "" for all
}

// unauthorized matches the message of the authorizer, which has the same form for
// every resource: see responsewriters in k8s.io/apiserver. The verbs of constrained
// impersonation (KEP-5284) are such as impersonate-on:serviceaccount:patch.
var unauthorized = regexp.MustCompile(`User "([^"]*)" cannot ([\w:-]+) resource "([^"]+)" in API group "([^"]*)" (?:in the namespace "([^"]*)"|at the cluster scope)`)

// MissingRight parses the message of a response 403. ok is false if it does not
// name a right: admission plugins, quotas and webhooks use the same code.
func MissingRight(message string) (right Right, ok bool) {
	m := unauthorized.FindStringSubmatch(message)
	if m == nil {
		return Right{}, false
	}
	return Right{User: m[1], Verb: m[2], Resource: m[3], Group: m[4], Namespace: m[5]}, true
}

// Advice returns the rule to add, as YAML that can be pasted from JSON and from a log, too: single
// quotes are not escaped there. It has the given verbs, or that of the right if
// there are none, or if the right is one to act as another user. Nobody is advised to give
// rights to whoever has no credentials.
func (r Right) Advice(verbs ...string) string {
	if r.User == anonymous {
		return fmt.Sprintf("the request was not authenticated (%q): check the credentials in the kubeconfig", anonymous)
	}
	who := strconv.Quote(r.User)
	if impersonates := strings.HasPrefix(r.Verb, "impersonate"); impersonates {
		if verbs = nil; r.User != Host {
			who += ", which is the host and acts as another user,"
		}
	}
	if len(verbs) == 0 {
		verbs = []string{r.Verb}
	}
	where := fmt.Sprintf("a Role in namespace %q", r.Namespace)
	if r.Namespace == "" {
		where = "a ClusterRole"
	}
	names := ""
	if r.Name != "" {
		names = fmt.Sprintf(", resourceNames: ['%s']", r.Name)
	}
	return fmt.Sprintf(`%s lacks a right: add to %s the rule {apiGroups: ['%s'], resources: ['%s'], verbs: ['%s']%s}`,
		who, where, r.Group, r.Resource, strings.Join(verbs, "', '"), names)
}

// Forbidden adds to an error of the API server what to do about a missing right,
// as [Right.Advice] does. Any other error is returned as it is.
func Forbidden(err error, verbs ...string) error {
	if right, ok := MissingRight(err.Error()); ok && apierrors.IsForbidden(err) {
		return fmt.Errorf("%s (%w)", right.Advice(verbs...), err)
	}
	return err
}

// Unreachable returns a text for an error of the HTTP client. ok is false for any
// other error. The text is the same for each attempt, because it has neither the
// request nor the local port.
func Unreachable(err error) (text string, ok bool) {
	request, ok := errors.AsType[*url.Error](err)
	if !ok {
		return "", false
	}
	host := request.URL
	if at, invalid := url.Parse(request.URL); invalid == nil {
		host = at.Host
	}
	cause := request.Err
	if connection, ok := errors.AsType[*net.OpError](cause); ok {
		cause = connection.Err
	}
	return fmt.Sprintf("the API server at %s cannot be reached (%v)", host, cause), true
}

// Outage reports whether an error of a request says nothing about the request:
// the API server could not be reached, did not respond in time or completely, or
// was overloaded. A webhook that fails is none: others may not be called at all,
// and that the API server is back says nothing about it. Nor is an [InvalidApply].
func Outage(err error) bool {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		s := status.Status()
		overloaded := s.Code == http.StatusTooManyRequests || s.Code >= http.StatusInternalServerError
		return overloaded && !strings.Contains(s.Message, "webhook") && !InvalidApply(err)
	}
	_, request := errors.AsType[*url.Error](err)
	_, network := errors.AsType[net.Error](err)
	return request || network || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, context.DeadlineExceeded)
}

// InvalidApply reports whether the API server has refused the body of a server-side apply, because
// of a field that the schema does not have, a value of another type, two elements with the same
// keys, or a value that is no quantity, time, base64 or integer. It does so with the code 500 and no
// reason, before it looks at the object.
func InvalidApply(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Code != http.StatusInternalServerError {
		return false
	}
	message := status.Status().Message
	return strings.HasPrefix(message, "failed to create typed patch object") || strings.HasPrefix(message, "failed to convert new object")
}
