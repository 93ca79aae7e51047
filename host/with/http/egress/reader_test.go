package egress

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	contract "github.com/thole-dev/thole/abi/http"
	"github.com/thole-dev/thole/host/rights"
)

func TestSecretIsReadAsTheServiceAccount(t *testing.T) {
	var got *http.Request
	api := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/api/v1/namespaces/vault/secrets/api":
			io.WriteString(w, `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"api"},"data":{"token":"dG9rZW4tb2YtdGhlLWhvc3Q="}}`)
		case "/api/v1/namespaces/vault/secrets/forbidden":
			w.WriteHeader(http.StatusForbidden)
			io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"no rights"}`)
		default:
			w.WriteHeader(http.StatusNotFound)
			io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"not there"}`)
		}
	})
	cluster := &rest.Config{Host: api.URL, DisableCompression: true}
	read, err := NewSecretReader(cluster, rights.Account{Namespace: "team", Name: "robot"}, "thole/1 plugin/p")
	if err != nil {
		t.Fatal(err)
	}
	data, err := read(t.Context(), SecretRef{Namespace: "vault", Name: "api"})
	if err != nil || string(data["token"]) != "token-of-the-host" {
		t.Errorf("%q, %v", data, err)
	}
	if got.Header.Get("Impersonate-User") != "system:serviceaccount:team:robot" || got.Header["Impersonate-Group"] != nil || got.UserAgent() != "thole/1 plugin/p" {
		t.Errorf("%v", got.Header)
	}
	if _, err := read(t.Context(), SecretRef{Namespace: "vault", Name: "forbidden"}); !apierrors.IsForbidden(err) {
		t.Error(err)
	}
	if _, err := read(t.Context(), SecretRef{Namespace: "vault", Name: "missing"}); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
	asHost, err := NewSecretReader(cluster, rights.Account{}, "thole/1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := asHost(t.Context(), SecretRef{Namespace: "vault", Name: "api"}); err != nil || got.Header["Impersonate-User"] != nil {
		t.Errorf("%v, %v", got.Header, err)
	}

	// With the whole client.
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer token-of-the-host" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	e := local(server)
	for name, want := range map[string]string{"api": "", "forbidden": contract.Credential, "missing": contract.Credential} {
		e.SecretRef = &SecretRef{Namespace: "vault", Name: name}
		c := newClient(t, Config{Entries: Entries{e}, Secrets: read})
		reply, err := c.get(t, server.URL)
		if want != "" {
			wantFailure(t, reply, err, want)
			if forbidden := name == "forbidden"; forbidden != strings.Contains(c.log.text(), "thole rbac prints the rights") {
				t.Error(c.log.text())
			}
		} else if err != nil || reply.Status != 200 {
			t.Errorf("%+v, %v", reply, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	if _, err := read(ctx, SecretRef{Namespace: "vault", Name: "api"}); err == nil {
		t.Error("it does not end with its context")
	}
}
