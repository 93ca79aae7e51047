package cache

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

func TestRefusedDiscoveryNamesTheRefusal(t *testing.T) {
	const text = `forbidden: User "u" cannot get path "/apis/example.dev/v1"`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `{"apiVersion":"v1","kind":"Status","status":"Failure","code":403,"reason":"Forbidden","message":%q}`, text)
	}))
	defer server.Close()
	c, err := New(Config{REST: &rest.Config{Host: server.URL}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop()
	if _, err = c.Resource(within(t), widget); err == nil || !strings.HasSuffix(err.Error(), text) || !apierrors.IsForbidden(err) {
		t.Errorf("got %v", err)
	}
}
