// Command nativeecho is the controller that BenchmarkEcho in host/internal/e2e compares
// thole with: it does what the plugin in host/internal/e2e/testdata/echo does, as a
// program on controller-runtime, written as its users write one. It has typed objects in
// the manager's cache, controllerutil.CreateOrUpdate for the child, and Status().Update.
// It is a module of its own so that thole does not depend on controller-runtime.
//
// It prints the line "ready" when its informers have synced, and ends by SIGTERM.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

func main() {
	namespace := flag.String("namespace", "", "the namespace of the Echoes")
	concurrency := flag.Int("concurrency", 1, "how many Echoes are reconciled at once")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	err := run(ctx, *namespace, *concurrency)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, namespace string, concurrency int) error {
	ctrl.SetLogger(logr.Discard())
	config, err := ctrl.GetConfig() // of the flag --kubeconfig
	if err != nil {
		return err
	}
	config.QPS = -1 // no limit of the client's own, as thole has none
	kinds, err := newScheme()
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  kinds,
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
		Metrics: server.Options{BindAddress: "127.0.0.1:0"},
	})
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(mgr).For(&Echo{}).Owns(&corev1.ConfigMap{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrency}).
		Complete(&reconciler{mgr.GetClient()})
	if err != nil {
		return err
	}
	if err := mgr.Add(manager.RunnableFunc(reportReady(mgr.GetCache()))); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// reportReady prints the line by which the benchmark waits for this program.
func reportReady(informers cache.Cache) func(context.Context) error {
	return func(ctx context.Context) error {
		if !informers.WaitForCacheSync(ctx) {
			return errors.New("the informers have not synced")
		}
		_, err := fmt.Fprintln(os.Stdout, "ready")
		return err
	}
}

type reconciler struct{ client.Client }

// Reconcile makes the ConfigMap and the status of an Echo match its spec.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	echo := &Echo{}
	if err := r.Get(ctx, request.NamespacedName, echo); err != nil || !echo.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: echo.Namespace, Name: echo.Name}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, child, func() error {
		child.Data = map[string]string{
			"revision": strconv.Itoa(echo.Spec.Revision),
			"entries":  strconv.Itoa(len(echo.Spec.Entries)),
			"text":     echo.Spec.Text,
		}
		return controllerutil.SetControllerReference(echo, child, r.Scheme())
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.updateStatus(ctx, echo)
}

// updateStatus writes the status if it changes, with the condition that the host of a
// plugin writes.
func (r *reconciler) updateStatus(ctx context.Context, echo *Echo) error {
	before := echo.Status
	echo.Status.Conditions = append([]metav1.Condition(nil), before.Conditions...)
	echo.Status.Revision, echo.Status.ObservedGeneration = echo.Spec.Revision, echo.Generation
	meta.SetStatusCondition(&echo.Status.Conditions, metav1.Condition{
		Type: "Ready", Status: metav1.ConditionTrue, Reason: "Succeeded",
		Message: "the wanted state is reached", ObservedGeneration: echo.Generation,
	})
	if equality.Semantic.DeepEqual(before, echo.Status) {
		return nil
	}
	return r.Status().Update(ctx, echo)
}
