// Command nativegate is the webhook that BenchmarkReview in package host compares thole with: it
// reviews what the plugin in host/testdata/gate reviews, as a program on controller-runtime, written
// as its users write one, with typed objects.
//
// It takes the directory of a certificate and a port, and ends by SIGTERM.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// GateA is the kind that is reviewed, whose CRD is in host/testdata/gate.
type GateA struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec GateSpec `json:"spec"`
}

// GateSpec is what the review looks at.
type GateSpec struct {
	Text string `json:"text"`
	Size int64  `json:"size,omitempty"`
}

// DeepCopyObject implements [runtime.Object].
func (g *GateA) DeepCopyObject() runtime.Object {
	c := *g
	g.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	return &c
}

func main() {
	certificates := flag.String("certificates", "", "the directory of tls.crt and tls.key")
	port := flag.Int("port", 0, "the port to listen on")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	err := run(ctx, *certificates, *port)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, certificates string, port int) error {
	ctrl.SetLogger(logr.Discard())
	config, err := ctrl.GetConfig() // of the flag --kubeconfig
	if err != nil {
		return err
	}
	kinds, group := runtime.NewScheme(), schema.GroupVersion{Group: "test.thole.dev", Version: "v1"}
	kinds.AddKnownTypes(group, &GateA{})
	metav1.AddToGroupVersion(kinds, group)
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: kinds, Metrics: server.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: port, CertDir: certificates}),
	})
	if err != nil {
		return err
	}
	if err := ctrl.NewWebhookManagedBy(mgr, &GateA{}).WithDefaulter(gate{}).WithValidator(gate{}).Complete(); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

type gate struct{}

// Default does what mutate of the plugin does.
func (gate) Default(_ context.Context, g *GateA) error {
	if g.Spec.Size == 0 {
		g.Spec.Size = int64(len(g.Spec.Text))
	}
	if g.Spec.Text != "plain" {
		if g.Labels == nil {
			g.Labels = map[string]string{}
		}
		g.Labels["gate"] = g.Spec.Text[:min(len(g.Spec.Text), 3)]
	}
	return nil
}

// ValidateCreate does what validate of the plugin does.
func (gate) ValidateCreate(_ context.Context, g *GateA) (admission.Warnings, error) {
	what, rest, _ := strings.Cut(g.Spec.Text, " ")
	switch what {
	case "deny":
		return nil, errors.New("text: " + rest)
	case "warn":
		return admission.Warnings{rest}, nil
	}
	return nil, nil
}

func (v gate) ValidateUpdate(ctx context.Context, _, g *GateA) (admission.Warnings, error) {
	return v.ValidateCreate(ctx, g)
}

func (gate) ValidateDelete(context.Context, *GateA) (admission.Warnings, error) { return nil, nil }
