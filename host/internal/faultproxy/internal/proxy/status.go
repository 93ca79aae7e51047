package proxy

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/thole-dev/thole/host/internal/faultproxy/internal/request"
	"github.com/thole-dev/thole/host/internal/faultproxy/internal/rule"
)

// noWatchList is how a server without watch-lists answers one.
var noWatchList = rule.Status{
	Code:    http.StatusUnprocessableEntity,
	Message: "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",
}

func internalError(err error) rule.Status {
	return rule.Status{Code: http.StatusInternalServerError, Message: "faultproxy: " + err.Error()}
}

// statusReply returns the reply of the fault "status".
func statusReply(r *http.Request, a request.Attributes, s rule.Status) *http.Response {
	var body []byte
	if s.Body != nil {
		body = []byte(*s.Body)
	} else {
		body = statusBody(r, a, s)
	}
	contentType := "text/plain; charset=utf-8"
	if json.Valid(body) {
		contentType = "application/json"
	}
	reply := newReply(r, s.Code, contentType, body)
	if s.RetryAfter > 0 {
		reply.Header.Set("Retry-After", strconv.Itoa(retryAfter(s)))
	}
	return reply
}

func retryAfter(s rule.Status) int { return int(s.RetryAfter / time.Second) }

// statusBody returns a [metav1.Status] of the code as the API server sends it.
func statusBody(r *http.Request, a request.Attributes, s rule.Status) []byte {
	resource, _, _ := strings.Cut(a.Resource, "/")
	kind := schema.GroupResource{Group: a.Group, Resource: resource}
	status := apierrors.NewGenericServerResponse(s.Code, r.Method, kind, a.Name, s.Message, retryAfter(s), false).Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	status.Message = cmp.Or(s.Message, status.Message, http.StatusText(s.Code))
	if s.Code == http.StatusGone {
		status.Reason = metav1.StatusReasonExpired
	}
	status.Reason = metav1.StatusReason(cmp.Or(s.Reason, string(status.Reason)))
	body, err := json.Marshal(status)
	if err != nil {
		panic(err) // a Status is JSON
	}
	return body
}

func newReply(r *http.Request, code int, contentType string, body []byte) *http.Response {
	return &http.Response{
		StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        http.Header{"Content-Type": {contentType}},
		ContentLength: int64(len(body)),
		Body:          io.NopCloser(bytes.NewReader(body)),
		Request:       r,
	}
}
