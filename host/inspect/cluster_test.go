package inspect

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/internal/devcluster"
)

// TestGuessesOfBuiltInKindsAreExact compares the guesses with a real API server,
// for every kind that it serves and of which client-go has a Go type.
func TestGuessesOfBuiltInKindsAreExact(t *testing.T) {
	cluster := rest.CopyConfig(devcluster.Shared(t).Config)
	cluster.QPS, cluster.Burst = 100, 200
	kinds := builtIn(t, cluster)
	if len(kinds) < 40 {
		t.Fatalf("only %d kinds: %v", len(kinds), kinds)
	}
	served, err := find(t.Context(), cluster, kinds)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range kinds {
		got, want := guess(kind), served[kind]
		if want.err != nil { // cannot be a primary: nothing depends on its status and namespace
			want.err, want.Status, want.Namespaced = nil, got.Status, got.Namespaced
		}
		if got != want {
			t.Errorf("%s: guessed %+v, want %+v", kind, got, want)
		}
	}
}

// A version that is missing is told from a CRD that is.
func TestVersionsOfAKindThatTheClusterServesAreNamed(t *testing.T) {
	beta := abi.Kind{APIVersion: "apps/v1beta2", Kind: "Deployment"}
	missing := abi.Kind{APIVersion: "apps/v1", Kind: "Deploy"}
	found, err := find(t.Context(), devcluster.Shared(t).Config, []abi.Kind{beta, missing})
	if err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[abi.Kind]string{
		beta:    "the API server does not serve apps/v1beta2 Deployment, but v1 of the kind: ",
		missing: "the API server does not serve apps/v1 Deploy: install its CRD",
	} {
		if err := found[kind].err; err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// builtIn returns the kinds that the cluster serves and client-go has a type of.
func builtIn(t *testing.T, cluster *rest.Config) (kinds []abi.Kind) {
	t.Helper()
	_, lists, err := kubernetes.NewForConfigOrDie(cluster).Discovery().ServerGroupsAndResources()
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	for _, list := range lists {
		for _, r := range list.APIResources {
			kind := abi.Kind{APIVersion: list.GroupVersion, Kind: r.Kind}
			if !strings.Contains(r.Name, "/") && !guess(kind).guessed {
				kinds = append(kinds, kind)
			}
		}
	}
	if len(kinds) == 0 {
		t.Fatalf("the cluster serves none of the %d types", len(scheme.Scheme.AllKnownTypes()))
	}
	return kinds
}
