package effect

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/rights"
)

// The cache has what the host may read. A plugin whose account may not is told the same of
// every name: not whether there is an object, whose it is, or that it is as the plugin wants it.
func TestAWriteTellsNothingOfAnObjectThatTheAccountMayNotGet(t *testing.T) {
	w := newCluster(t)
	w.create(serviceAccount, `{"metadata":{"name":"plugin"}}`)
	w.create(role, `{"metadata":{"name":"plugin"},"rules":[{"apiGroups":[""],"resources":["configmaps"],"verbs":["patch","create","delete"]}]}`)
	w.create(roleBinding, fmt.Sprintf(`{"metadata":{"name":"plugin"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"plugin"},`+
		`"subjects":[{"kind":"ServiceAccount","namespace":%q,"name":"plugin"}]}`, w.ns))
	widget := w.owner(list(configMap), nil).Object
	for name, lists := range map[string][2][]object.Resource{
		"owned": {list(configMap), nil}, "written": {nil, list(configMap)}, "both": {list(configMap), list(configMap)},
	} {
		t.Run(name, func(t *testing.T) {
			w.start()
			target := Target{Controller: controller(lists[0], lists[1]), Object: widget}
			mine := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"mine-%s"},"data":{"a":"b"}}`, name)
			w.intents(target, apply("%s", mine))
			w.seen(configMap, "mine-"+name)
			for other, meta := range map[string]string{
				"free":       ``,
				"controlled": `,"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"secret-owner","uid":"u","controller":true}]`,
				"held":       `,"finalizers":["test.thole.dev/f"]`,
			} {
				w.create(configMap, fmt.Sprintf(`{"metadata":{"name":"%s-%s"%s}}`, other, name, meta))
				if other == "held" {
					w.remove(configMap, other+"-"+name)
				}
				w.seen(configMap, other+"-"+name)
			}
			records := w.Performer
			w.start(func(c *Config) {
				c.Account = rights.Account{Namespace: w.ns, Name: "plugin"}
				c.MayGet = func(context.Context, object.Resource, object.Key) bool { return false }
			})
			w.Inherit(records)
			expect := func(what string, result *abi.Result) {
				t.Helper()
				_, failure := w.PerformIntents(t.Context(), target, result)
				if failure == nil || failure.Class != abi.ClassDenied || !strings.Contains(failure.Message, `resources: ['configmaps'], verbs: ['get']`) {
					t.Errorf("%s: %+v", what, failure)
				}
			}
			for _, object := range []string{"mine", "free", "controlled", "held", "absent"} {
				named := object + "-" + name
				body := strings.Replace(mine, "mine-"+name, named, 1)
				expect("apply "+object, apply("%s", body))
				expect("adopt "+object, adopt(apply("%s", body)))
				expect("create "+object, creating(apply("%s", body)))
				ref := abi.Ref{APIVersion: "v1", Kind: "ConfigMap", Name: named}
				if name != "written" { // what is not owned is refused before any request
					expect("adopt alone "+object, adopting(named))
					expect("release "+object, releasing(named))
				}
				expect("delete "+object, &abi.Result{Delete: []abi.Delete{{Ref: ref}}})
				expect("delete "+object+" again", &abi.Result{Delete: []abi.Delete{{Ref: ref}}})
				ref.UID = "another"
				expect("delete another "+object, &abi.Result{Delete: []abi.Delete{{Ref: ref}}})
			}
		})
	}
}
