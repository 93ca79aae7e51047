package runner

import (
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/internal/logtest"
)

func TestKindsThatAreNotPrunedAnyMoreAreTold(t *testing.T) {
	configMaps, secrets := abi.Kind{APIVersion: "v1", Kind: "ConfigMap"}, abi.Kind{APIVersion: "v1", Kind: "Secret"}
	logs := logtest.New(hclog.Info)
	r := New(Config{Cache: unconnected(t), Logger: logs.Logger, Namespace: "ns"})
	before := []prunedKind{{"main", configMaps}, {"main", secrets}, {"second", configMaps}}

	r.reportUnpruned("demo", before, before)
	logs.ExpectNone(t)
	r.reportUnpruned("demo", before, []prunedKind{{"main", configMaps}, {"second", configMaps}})
	logs.ExpectNext(t, hclog.Warn, "command", "kubectl delete Secret.v1 --namespace ns --selector thole.dev/applied-by=demo.main")
	logs.ExpectNone(t)
	r.Namespace = ""
	r.reportUnpruned("demo", before[2:], nil)
	logs.ExpectNext(t, hclog.Warn, "command", "kubectl delete ConfigMap.v1 --all-namespaces --selector thole.dev/applied-by=demo.second")
}
