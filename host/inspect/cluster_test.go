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

// TestGuessesOfBuiltInKinds asks a real API server for every kind of its own
// that the host has a Go type of: what is not called a guess must be right.
func TestGuessesOfBuiltInKinds(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	cluster := rest.CopyConfig(devcluster.Start(t).Config)
	cluster.QPS, cluster.Burst = 100, 200
	kinds := builtIn(t, cluster)
	if len(kinds) < 40 {
		t.Fatalf("only %d kinds: %v", len(kinds), kinds)
	}
	served, err := discover(t.Context(), cluster, kinds)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range kinds {
		is, want := guess(kind), served[kind]
		if want.unfollowable != "" { // no primary can be one: nobody asks for its /status
			want.unfollowable, want.status = "", is.status
		}
		if is != want {
			t.Errorf("%s: guessed %+v, is %+v", kind, is, want)
		}
	}
}

// builtIn lists the kinds that the cluster serves and the host has a type of.
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
