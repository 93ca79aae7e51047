package main

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/finalizers"
	"github.com/thole-dev/thole/host/object"
)

func TestTheListOfFinalizers(t *testing.T) {
	held := func(apiVersion, kind, namespace, name, controller string, deleting bool) finalizers.Held {
		o := &object.Object{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		if deleting {
			o.DeletionTimestamp = &metav1.Time{Time: time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)}
		}
		return finalizers.Held{
			Kind: object.Resource{Kind: abi.Kind{APIVersion: apiVersion, Kind: kind}}, Object: o,
			Controller: controller, Finalizer: "demo.thole.dev/" + controller,
		}
	}
	var out strings.Builder
	if err := printHeld(&out, []finalizers.Held{
		held("example.dev/v1", "Widget", "default", "a", "main", true),
		held("v1", "Namespace", "", "web", "second", false),
	}); err != nil {
		t.Fatal(err)
	}
	const want = `
NAMESPACE   NAME   KIND                    FINALIZER               DELETING SINCE
default     a      Widget.v1.example.dev   demo.thole.dev/main     2026-11-20T10:00:00Z
-           web    Namespace.v1            demo.thole.dev/second   -
`
	if got := "\n" + out.String(); got != want {
		t.Errorf("got:%s\nwant:%s", got, want)
	}
}

func TestWhereNamesOwnerAndNamespace(t *testing.T) {
	for want, c := range map[string]finalizers.Config{
		"demo in all namespaces":                  {Owner: finalizers.Owner{Plugin: "demo"}},
		"demo/main in namespace web (-A for all)": {Owner: finalizers.Owner{Plugin: "demo", Controller: "main"}, Namespace: "web"},
	} {
		if got := where(c); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
