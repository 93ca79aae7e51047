package webhooks

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/thole-dev/thole/host/internal/logtest"
)

func TestConfigurationThatCannotBeDeletedIsTriedAgainLessAndLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewSimpleDynamicClient(runtime.NewScheme())
		attempts, refuse := 0, true
		client.PrependReactor("delete", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
			attempts++
			if refuse {
				return true, nil, apierrors.NewForbidden(validatingResource.GroupResource(), "thole-gate", nil)
			}
			return true, nil, nil
		})
		logs := logtest.New(hclog.Error)
		r := NewRegistrar(RegistrarConfig{
			Client: client, Known: func(string) bool { return false }, KnownToOthers: func(string) bool { return false }, Logger: logs.Logger,
		})
		at := target{validatingResource, ConfigurationName("gate")}
		shown := at.object()
		shown.SetLabels(map[string]string{labelPlugin: "gate"})
		store := cache.NewStore(cache.MetaNamespaceKeyFunc)
		if err := store.Add(shown); err != nil {
			t.Fatal(err)
		}
		r.stores[validatingResource] = store
		r.led["gate"] = true
		r.written[at] = &written{text: "as it was"}
		for range 600 {
			r.removeOrphans(t.Context())
			time.Sleep(lookEvery) // fake time
		}
		if attempts < 10 || attempts > 20 {
			t.Errorf("%d attempts in ten minutes", attempts)
		}
		logs.ExpectNext(t, hclog.Error, "plugin", "gate")
		logs.ExpectNone(t)
		refuse = false
		time.Sleep(maxPause) // fake time
		r.removeOrphans(t.Context())
		if r.written[at] != nil {
			t.Error("it was not deleted when it could be")
		}
	})
}

// Otherwise each of two hosts would write over what the other one has written, without end.
func TestWhatAnotherHostWritesIsLeftAlone(t *testing.T) {
	crd, configuration := target{crdResource, "gates.example.com"}, target{validatingResource, ConfigurationName("gate")}
	for name, test := range map[string]struct {
		target
		host  string // of the label; "": none
		wrote bool
		want  string // "": it is written
	}{
		"CRD of no host":                      {crd, "", false, ""},
		"CRD without the label any more":      {crd, "", true, ""},
		"CRD of the host":                     {crd, "own", false, ""},
		"CRD of another host":                 {crd, "other", false, "by another host"},
		"CRD taken by another host":           {crd, "other", true, "kubectl label crd gates.example.com thole.dev/host-"},
		"configuration of somebody":           {configuration, "", false, "somebody else's"},
		"configuration without the label any": {configuration, "", true, ""},
		"configuration of the host":           {configuration, "own", false, ""},
		"configuration of another host":       {configuration, "other", false, "by another host"},
		"configuration taken by another host": {configuration, "other", true, "delete it"},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewSimpleDynamicClient(runtime.NewScheme())
			r := NewRegistrar(RegistrarConfig{Client: client, Endpoint: inCluster, Logger: hclog.NewNullLogger(), Plugins: func() []Plugin { return []Plugin{reviewedPlugin()} }})
			r.label = "own"
			stored := test.object()
			if test.host != "" {
				stored.SetLabels(map[string]string{labelHost: test.host})
			}
			patched := false
			client.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
				patched = patched || action.GetVerb() == "patch"
				return true, stored, nil
			})
			_, err := r.apply(t.Context(), test.target, test.object(), test.wrote)
			if patched != (test.want == "") || test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("written: %t, %v", patched, err)
			}
			// The certificate of this host need not be trusted there.
			if arrived := r.Arrived(t.Context(), nil); arrived != (test.host == "other") && test.target == crd {
				t.Errorf("the bundle has arrived: %t", arrived)
			}
		})
	}
}

func TestConfigurationsOfAPluginThatIsBeingStartedStay(t *testing.T) {
	client := fake.NewSimpleDynamicClient(runtime.NewScheme())
	var did []string
	client.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		did = append(did, action.GetVerb()+" "+action.GetResource().Resource)
		return true, (target{crdResource, "gates.example.com"}).object(), nil
	})
	r := NewRegistrar(RegistrarConfig{Client: client, Endpoint: inCluster, Logger: hclog.NewNullLogger()})
	at := target{validatingResource, ConfigurationName("gate")}
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	if err := store.Add(at.object()); err != nil {
		t.Fatal(err)
	}
	r.stores[validatingResource] = store
	p := reviewedPlugin()
	p.Starting = true
	if problem, known := r.Problem(p.Name); known || problem != "" {
		t.Errorf("before the first look the problem is %q", problem)
	}
	r.setProblem(p.Name, nil)
	if problem, known := r.Problem(p.Name); !known || problem != "" {
		t.Errorf("without a problem it is %q, %v", problem, known)
	}
	if problems := r.lookAt(t.Context(), p, []byte("CA"), map[string]string{}); problems != nil {
		t.Error(problems)
	}
	if want := []string{"get customresourcedefinitions", "patch customresourcedefinitions"}; !slices.Equal(did, want) {
		t.Errorf("the registrar did %q, want %q", did, want)
	}
}
