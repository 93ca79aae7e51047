package runner

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/cache/scope"
	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/rights"
	"github.com/thole-dev/thole/host/telemetry"
)

// The audit log shows which code wrote, and as whom.
func TestNewCodeAndANewAccountGetAPerformerOfTheirOwn(t *testing.T) {
	_, url := startRefusingServer(t)
	r := newRunner(t, url, "")
	policy := config.Policy{Limits: config.Config{}.WithDefaults().Limits}
	for number, c := range []struct{ digest, account string }{
		{"d", ""}, {"e", ""}, {"e", "a/b"}, {"e", "a/c"}, {"f", "a/c"}, {"e", "a/c"}, {"e", ""},
	} {
		policy.ServiceAccount = c.account
		var before *effect.Performer
		for again := range 2 { // nothing differs the second time
			err := r.Start(t.Context(), &Revision{
				Revision: events.Revision{Plugin: "p", Number: number + 1, Digest: c.digest}, Policy: policy,
				Manifest: &abi.Manifest{Name: "p", Controllers: []abi.Controller{{Name: "c", For: widgets.All()}}},
			}, func() error { return nil })
			if err != nil {
				t.Fatal(err)
			}
			p := r.plugins["p"]
			now := p.effects.Load()
			if now.Digest != c.digest || now.Account != policy.Account() || p.controllers["c"].Revision().Effects != now {
				t.Errorf("%+v: the digest is %s, the account %v", c, now.Digest, now.Account)
			}
			if want, _ := rights.ParseAccount(c.account); now.Account != want {
				t.Errorf("%+v: acts as %v", c, now.Account)
			}
			if again == 1 && now != before {
				t.Errorf("%+v: the same revision has got another performer", c)
			}
			before = now
		}
	}
}

// What is remembered of objects is in the controller, and what was written in the
// records of the performer.
func TestANewPolicyKeepsTheController(t *testing.T) {
	_, url := startRefusingServer(t)
	r := newRunner(t, url, "")
	number := 0
	start := func(policy config.Policy) *controller {
		t.Helper()
		number++
		err := r.Start(t.Context(), &Revision{
			Revision: events.Revision{Plugin: "p", Number: number, Digest: "d"}, Policy: policy,
			Manifest: &abi.Manifest{Name: "p", Controllers: []abi.Controller{{Name: "c", For: widgets.All(), Concurrency: 4}}},
		}, func() error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		return r.plugins["p"].controllers["c"]
	}
	policy := config.Policy{}
	policy.Limits.Concurrency = 2
	first := start(policy)
	policy.Limits.Concurrency, policy.Limits.WritesPerSecond, policy.Limits.WriteBurst = 8, 3, 4
	policy.Allow = rights.Everything()
	if second := start(policy); second != first {
		t.Error("a policy with another concurrency has replaced the controller")
	}
	if revision := first.Revision(); revision.Number != 2 || revision.Digest != "d" || !revision.Reads[widgets].Get.All {
		t.Errorf("it runs %+v", revision)
	}
	if p := r.plugins["p"].effects.Load(); p.QPS != 3 || !p.Allow.Equal(policy.Allow) || first.Revision().Effects != p {
		t.Errorf("its writes are limited to %v per second", p.QPS)
	}
	policy.Namespaces = config.Namespaces{"a"}
	start(policy)
	if p := r.plugins["p"].effects.Load(); !slices.Equal(p.Namespaces, policy.Namespaces) || first.Revision().Effects != p {
		t.Errorf("it writes in the namespaces %v", p.Namespaces)
	}
	if first.canSwapTo(abi.Controller{Name: "c", For: gadgets.All()}) {
		t.Error("a controller for another kind would keep the keys of the former one")
	}
}

// newRunner returns a runner of plugin p, in a host that is restricted to a namespace
// unless that is "".
func newRunner(t *testing.T, url, namespace string) *Runner {
	t.Helper()
	cluster := &rest.Config{Host: url}
	objects, err := cache.New(cache.Config{REST: cluster, Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(objects.Stop)
	r := New(Config{
		Cluster: cluster, Cache: objects, Metrics: telemetry.NewMetrics(), Events: events.Observers(), Logger: hclog.NewNullLogger(),
		Recorder: func(func()) effect.Recorder { return noEvents{} }, HostIdentity: true, Resync: time.Hour, Namespace: namespace,
	})
	r.Access = (&authorizer{}).reviewer("b", "c")
	t.Cleanup(func() { r.Stop("p", false) })
	return r
}

type noEvents struct{ effect.Recorder }

// startIn starts a plugin of widgets in a host that is restricted to the namespace a.
func startIn(t *testing.T, policy config.Policy, selects abi.Selector) *controller {
	_, url := startRefusingServer(t)
	r := newRunner(t, url, "a")
	policy.Limits.Concurrency = 1
	err := r.Start(t.Context(), &Revision{
		Revision: events.Revision{Plugin: "p", Number: 1, Digest: "d"}, Policy: policy,
		Manifest: &abi.Manifest{Name: "p", Controllers: []abi.Controller{{Name: "c", For: abi.Followed{Kind: widgets, Selector: selects}}}},
	}, func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return r.plugins["p"].controllers["c"]
}

// Otherwise a list of all namespaces would read in one that the host does not follow, in
// every run anew.
func TestThePluginFollowsNothingOutsideOfTheNamespaceOfTheHost(t *testing.T) {
	for name, c := range map[string]*controller{
		"of the policy":   startIn(t, config.Policy{Namespaces: config.Namespaces{"a", "b"}}, abi.Selector{}),
		"of the manifest": startIn(t, config.Policy{}, abi.Selector{Namespaces: []string{"b", "a"}}),
		"all":             startIn(t, config.Policy{}, abi.Selector{}),
	} {
		reads := c.Revision().Scopes.Reads[widgets]
		if _, err := reads.Get(scope.Read{Namespace: "b"}); err == nil {
			t.Errorf("namespaces %s: a get in a namespace that is not followed is not denied", name)
		}
		within, err := reads.List(scope.Read{})
		if err != nil {
			t.Fatal(err)
		}
		run := c.Cache.Begin(object.Key{Namespace: "a", Name: "w"}, c.Revision().Scopes.Reads)
		if found, err := run.List(cache.Reading{Kind: widgets, Namespaces: within.Namespaces}); err != nil || len(found.Items) != 1 {
			t.Errorf("namespaces %s: a list of all has %d items, %v", name, len(found.Items), err)
		}
		run.Abandon()
	}
}

// Children in namespaces that the plugin could not have before may be those of an earlier
// revision that was not managed.
func TestChildrenInNewNamespacesAreLabelled(t *testing.T) {
	var listed []string
	url := startServer(t, func(out http.ResponseWriter, request *http.Request) bool {
		if strings.HasPrefix(request.URL.Query().Get("labelSelector"), abi.LabelManagedBy+"!=") {
			listed = append(listed, request.URL.Path)
			fmt.Fprint(out, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{},"items":[]}`)
			return true
		}
		return false
	})
	r := newRunner(t, url, "")
	for number, step := range []struct {
		namespaces config.Namespaces
		want       string
	}{
		{config.Namespaces{"a"}, "a"}, {config.Namespaces{"a"}, ""}, {config.Namespaces{"a", "b"}, "a b"}, {nil, "all"}, {config.Namespaces{"b"}, ""},
	} {
		listed = nil
		policy := config.Policy{Namespaces: step.namespaces}
		policy.Limits.Concurrency = 1
		err := r.Start(t.Context(), &Revision{
			Revision: events.Revision{Plugin: "p", Number: number, Digest: "d"}, Policy: policy,
			Manifest: &abi.Manifest{Name: "p", Managed: true, Controllers: []abi.Controller{{
				Name: "c", For: widgets.All(), Owns: []abi.Followed{widgets.All()},
			}}},
		}, func() error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, path := range listed {
			if _, after, bounded := strings.Cut(path, "/namespaces/"); bounded {
				got = append(got, strings.TrimSuffix(after, "/widgets"))
			} else {
				got = append(got, "all")
			}
		}
		if strings.Join(got, " ") != step.want {
			t.Errorf("step %d: children are looked for in %q, want %q", number, got, step.want)
		}
	}
	listed = nil
	waiting := &abi.Manifest{Name: "q", Managed: true, Controllers: []abi.Controller{{
		Name: "c", For: gadgets.All(), Owns: []abi.Followed{widgets.All()},
	}}}
	err := r.Start(t.Context(), &Revision{Revision: events.Revision{Plugin: "q", Number: 1, Digest: "d"}, Manifest: waiting}, func() error { return nil })
	if _, waits := errors.AsType[*catalog.WaitError](err); !waits || listed != nil {
		t.Errorf("a plugin that waits for a kind looks for children in %q in each attempt: %v", listed, err)
	}
	other := abi.Controller{Name: "c", For: gadgets.All(), Owns: []abi.Followed{widgets.All()}}
	if r.isManaged(&Revision{Revision: events.Revision{Plugin: "p"}, Policy: config.Policy{Namespaces: config.Namespaces{"b"}}, Manifest: &abi.Manifest{Name: "p", Controllers: []abi.Controller{other}}}) {
		t.Error("the children of another primary kind need not have been labelled")
	}
}
