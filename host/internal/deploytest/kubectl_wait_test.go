package deploytest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/jsonpath"
)

func (c *kubectlCommand) rolloutRestart(ctx context.Context) error {
	return c.merge(ctx, fmt.Appendf(nil, `{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":%q}}}}}`,
		time.Now().Format(time.RFC3339Nano)))
}

func (c *kubectlCommand) rolloutStatus(ctx context.Context) error {
	return c.await(ctx, "the rollout", func(o *unstructured.Unstructured) (bool, error) {
		number := func(path ...string) int64 { n, _, _ := unstructured.NestedInt64(o.Object, path...); return n }
		wanted := number("spec", "replicas")
		return number("status", "observedGeneration") >= o.GetGeneration() &&
			number("status", "updatedReplicas") == wanted && number("status", "replicas") == wanted &&
			number("status", "availableReplicas") == wanted, nil
	})
}

func (c *kubectlCommand) wait(ctx context.Context) error {
	kind, wanted, _ := strings.Cut(c.flags["--for"], "=")
	switch kind {
	case "condition":
		return c.await(ctx, "condition "+wanted, func(o *unstructured.Unstructured) (bool, error) {
			return condition(o, wanted)["status"] == "True", nil
		})
	case "jsonpath":
		path, value, _ := strings.Cut(wanted, "=")
		return c.await(ctx, wanted, func(o *unstructured.Unstructured) (bool, error) {
			got, err := evaluate(path, o)
			return got == value, err
		})
	}
	return errors.New("wait is supported for condition and jsonpath")
}

func evaluate(path string, o *unstructured.Unstructured) (string, error) {
	j := jsonpath.New("wait").AllowMissingKeys(true)
	if err := j.Parse(path); err != nil {
		return "", err
	}
	var out bytes.Buffer
	err := j.Execute(&out, o.Object)
	return out.String(), err
}

func (c *kubectlCommand) await(ctx context.Context, what string, done func(*unstructured.Unstructured) (bool, error)) error {
	client, name, err := c.named()
	if err != nil {
		return err
	}
	return poll(ctx, what, func() (bool, error) {
		o, err := client.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		return done(o)
	})
}

// poll calls done until it returns true or an error.
func poll(ctx context.Context, what string, done func() (bool, error)) error {
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(context.Context) (bool, error) { return done() })
	if ctx.Err() != nil {
		return fmt.Errorf("timed out waiting for %s", what)
	}
	return err
}
