package webhook

import (
	"slices"
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
	"github.com/thole-dev/thole/host/rights"
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
		at := target{validatingResource, rights.WebhookName("gate")}
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

func TestConfigurationsOfAPluginThatIsBeingStartedStay(t *testing.T) {
	client := fake.NewSimpleDynamicClient(runtime.NewScheme())
	var did []string
	client.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		did = append(did, action.GetVerb()+" "+action.GetResource().Resource)
		return true, (target{crdResource, "gates.example.com"}).object(), nil
	})
	r := NewRegistrar(RegistrarConfig{Client: client, Endpoint: inCluster, Logger: hclog.NewNullLogger()})
	at := target{validatingResource, rights.WebhookName("gate")}
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	if err := store.Add(at.object()); err != nil {
		t.Fatal(err)
	}
	r.stores[validatingResource] = store
	p := reviewedPlugin()
	p.Starting = true
	if problems := r.lookAt(t.Context(), p, []byte("CA"), map[string]string{}); problems != nil {
		t.Error(problems)
	}
	if want := []string{"get customresourcedefinitions", "patch customresourcedefinitions"}; !slices.Equal(did, want) {
		t.Errorf("the registrar did %q, want %q", did, want)
	}
}
