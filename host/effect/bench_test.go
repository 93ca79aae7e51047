package effect

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

const livePod = `{"apiVersion":"v1","kind":"Pod","metadata":{"annotations":{"thole.dev/applied":"00000000000000000000000000000000"},"creationTimestamp":"2026-11-20T10:00:00Z","generation":1,"labels":{"app":"web"},"name":"web","namespace":"default","ownerReferences":[{"apiVersion":"test.thole.dev/v1","blockOwnerDeletion":true,"controller":true,"kind":"Widget","name":"w","uid":"u1"}],"resourceVersion":"%d","uid":"u2"},"spec":{"containers":[{"args":["a","b"],"image":"web:1","imagePullPolicy":"IfNotPresent","name":"main","ports":[{"containerPort":80,"protocol":"TCP"}],"resources":{"requests":{"cpu":"1"}},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","volumeMounts":[{"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount","name":"kube-api-access","readOnly":true}]}],"dnsPolicy":"ClusterFirst","enableServiceLinks":true,"preemptionPolicy":"PreemptLowerPriority","priority":0,"restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},"serviceAccount":"default","serviceAccountName":"default","terminationGracePeriodSeconds":30,"tolerations":[{"effect":"NoExecute","key":"node.kubernetes.io/not-ready","operator":"Exists","tolerationSeconds":300},{"effect":"NoExecute","key":"node.kubernetes.io/unreachable","operator":"Exists","tolerationSeconds":300}],"volumes":[{"name":"kube-api-access","projected":{"defaultMode":420,"sources":[{"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}},{"configMap":{"items":[{"key":"ca.crt","path":"ca.crt"}],"name":"kube-root-ca.crt"}},{"downwardAPI":{"items":[{"fieldRef":{"apiVersion":"v1","fieldPath":"metadata.namespace"},"path":"namespace"}]}}]}}]},"status":{"phase":"Pending","qosClass":"Burstable"}}`

// benchWorld returns a performer that has applied one child of a Widget, which
// the store holds.
func benchWorld(b *testing.B) (*Performer, *store, Target, *abi.Result) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, livePod, 10)
	}))
	b.Cleanup(server.Close)
	s := &store{}
	p, err := New(Config{REST: &rest.Config{Host: server.URL}, Planner: Planner{Plugin: "demo", Store: s}, Recorder: &recorder{}})
	if err != nil {
		b.Fatal(err)
	}
	o, err := object.Parse([]byte(primary), abi.Kind{})
	if err != nil {
		b.Fatal(err)
	}
	t, in := Target{Controller: controller(list(pod), nil), Object: o}, apply(podObject, "web:1")
	putPod(b, s, 9)
	if _, failure := p.PerformIntents(b.Context(), t, in); failure != nil {
		b.Fatal(failure)
	}
	putPod(b, s, 10)
	return p, s, t, in
}

func putPod(b *testing.B, s *store, version int) {
	o, err := object.Parse(fmt.Appendf(nil, livePod, version), abi.Kind{})
	if err != nil {
		b.Fatal(err)
	}
	s.put(o)
}

// BenchmarkApplyElided measures an apply that has nothing to do: the child is
// unchanged, or only its status has changed.
func BenchmarkApplyElided(b *testing.B) {
	b.Run("unchanged", func(b *testing.B) {
		p, _, t, in := benchWorld(b)
		b.ReportAllocs()
		for b.Loop() {
			if r, failure := p.PerformIntents(b.Context(), t, in); failure != nil || len(r.Writes) > 0 {
				b.Fatal(r, failure)
			}
		}
	})
	b.Run("status-changed", func(b *testing.B) {
		p, s, t, in := benchWorld(b)
		var versions []*object.Object
		for v := range 1000 {
			putPod(b, s, 11+v)
			o, _ := s.Get(pod.Kind, object.Key{Namespace: "default", Name: "web"})
			versions = append(versions, o)
		}
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if i%len(versions) == 0 {
				b.StopTimer()
				p.Forget(object.HashOf(string(t.Object.UID)))
				putPod(b, s, 9)
				if _, failure := p.PerformIntents(b.Context(), t, in); failure != nil {
					b.Fatal(failure)
				}
				b.StartTimer()
			}
			s.put(versions[i%len(versions)])
			if r, failure := p.PerformIntents(b.Context(), t, in); failure != nil || len(r.Writes) > 0 {
				b.Fatal(r, failure)
			}
		}
	})
}

// BenchmarkStatusUnchanged measures a status that is on the object already, of a kind
// whose schema is known, and of one whose is not.
func BenchmarkStatusUnchanged(b *testing.B) {
	b.Run("none", func(b *testing.B) { statusUnchanged(b, nil) })
	b.Run("schema", func(b *testing.B) { statusUnchanged(b, podManagerStatus(b)) })
}

// podManagerStatus returns the schema of the status of a PodManager.
func podManagerStatus(b *testing.B) *object.Schema {
	text, err := os.ReadFile("../../plugins/podmanager/crd.yaml")
	if err != nil {
		b.Fatal(err)
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema struct {
						Properties map[string]json.RawMessage `json:"properties"`
					} `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(text, &crd); err != nil {
		b.Fatal(err)
	}
	schema, err := object.ParseSchema(crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"])
	if err != nil {
		b.Fatal(err)
	}
	return schema
}

func statusUnchanged(b *testing.B, schema *object.Schema) {
	p, s, t, _ := benchWorld(b)
	if schema != nil {
		s.schemas = func(context.Context, abi.Kind, time.Duration) (*object.Schema, error) { return schema, nil }
	}
	status := `"status":{"conditions":[{"lastTransitionTime":"2026-11-20T10:00:00Z","message":"m","observedGeneration":1,"reason":"Because","status":"True","type":"Ready"}],"note":"hello","observedGeneration":1}`
	o, err := object.Parse([]byte(strings.Replace(primary, `"spec":{}`, status, 1)), abi.Kind{})
	if err != nil {
		b.Fatal(err)
	}
	t.Object = o
	want := ready("True", 1)
	want.Patch = []byte(`{"note":"hello"}`)
	b.ReportAllocs()
	for b.Loop() {
		if r, failure := p.WriteStatus(b.Context(), t, want); len(r.Writes) > 0 || failure != nil {
			b.Fatal(r, failure)
		}
	}
}

func BenchmarkDigest(b *testing.B) {
	text := fmt.Appendf(nil, livePod, 1)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := sumBody(text); err != nil {
			b.Fatal(err)
		}
	}
}
