package deploytest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/thole-dev/thole/host/internal/await"
)

// The test binary stands in for kubectl when it is run by that name, because a
// machine that runs the tests need not have kubectl. It supports what
// deploy/README.md and the documents of host/internal/doctest use, and refuses
// everything else.

// kubectl runs a command line and returns the exit code.
func kubectl(args []string) int {
	c, err := parseKubectl(args)
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
		defer cancel()
		err = c.run(ctx)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "kubectl (stand-in) %s: %v\n", strings.Join(args, " "), err)
		return 1
	}
	return 0
}

// kubectlCommand is a command line.
type kubectlCommand struct {
	words   []string // the verb and its operands, without flags
	flags   map[string]string
	timeout time.Duration
	admin   *administrator
}

// kubectlFlags has the supported flags, and true for those that have a value.
var kubectlFlags = map[string]bool{
	"-n": true, "--from-file": true, "-f": true, "-k": true, "-o": true, "-p": true, "--for": true, "--timeout": true, "--type": true,
	"--server-side": false, "--all": false, "--all-namespaces": false,
}

func parseKubectl(args []string) (*kubectlCommand, error) {
	c := &kubectlCommand{flags: map[string]string{}, timeout: await.Limit}
	for len(args) > 0 {
		word := args[0]
		args = args[1:]
		if !strings.HasPrefix(word, "-") {
			c.words = append(c.words, word)
			continue
		}
		name, value, given := strings.Cut(word, "=")
		hasValue, known := kubectlFlags[name]
		switch {
		case !known, given && !hasValue:
			return nil, fmt.Errorf("the flag %s is not supported", word)
		case hasValue && !given:
			if len(args) == 0 {
				return nil, fmt.Errorf("the flag %s has no value", word)
			}
			value, args = args[0], args[1:]
		}
		c.flags[name] = value
	}
	if t, ok := c.flags["--timeout"]; ok {
		var err error
		if c.timeout, err = time.ParseDuration(t); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *kubectlCommand) has(flag string) bool { _, ok := c.flags[flag]; return ok }

func (c *kubectlCommand) run(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	if c.admin, err = newAdministrator(config); err != nil {
		return err
	}
	verb := c.words[0]
	if verb == "rollout" && len(c.words) > 1 {
		verb, c.words = verb+" "+c.words[1], c.words[1:]
	}
	do, ok := map[string]func(context.Context) error{
		"apply": c.apply, "create": c.createConfigMap, "delete": c.delete, "get": c.get, "patch": c.patch, "wait": c.wait,
		"rollout status": c.rolloutStatus, "rollout restart": c.rolloutRestart,
	}[verb]
	if !ok {
		return errors.New("the command is not supported")
	}
	c.words = c.words[1:]
	return do(ctx)
}

// objects returns what -f or -k names, in order.
func (c *kubectlCommand) objects() ([]*unstructured.Unstructured, error) {
	if c.has("-k") {
		return kustomize(c.flags["-k"])
	}
	return manifests(c.flags["-f"])
}

func (c *kubectlCommand) apply(ctx context.Context) error {
	objects, err := c.objects()
	if err != nil {
		return err
	}
	for _, o := range objects {
		if !c.has("--server-side") && tooLargeForAnnotation(o) {
			return fmt.Errorf("%s: metadata.annotations: Too long", describe(o))
		}
		if err := c.admin.apply(ctx, o, false); err != nil {
			return fmt.Errorf("%s: %w", describe(o), err)
		}
	}
	return nil
}

// createConfigMap is `create configmap NAME --from-file=FILE`.
func (c *kubectlCommand) createConfigMap(ctx context.Context) error {
	if len(c.words) != 2 || c.words[0] != "configmap" || !c.has("--from-file") {
		return errors.New("create is supported for a configmap --from-file")
	}
	content, err := os.ReadFile(c.flags["--from-file"])
	if err != nil {
		return err
	}
	_, err = c.admin.CoreV1().ConfigMaps(c.flags["-n"]).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: c.words[1]}, BinaryData: map[string][]byte{filepath.Base(c.flags["--from-file"]): content},
	}, metav1.CreateOptions{})
	return err
}

// tooLargeForAnnotation reports whether the object exceeds the annotation that
// client-side apply writes.
func tooLargeForAnnotation(o *unstructured.Unstructured) bool {
	text, err := o.MarshalJSON()
	return err != nil || len(text) > 256<<10
}

// delete deletes objects and waits until they are removed.
func (c *kubectlCommand) delete(ctx context.Context) error {
	objects, err := c.toDelete(ctx)
	if err != nil {
		return err
	}
	for _, o := range objects {
		client, err := c.admin.resource(o)
		if err != nil {
			return err
		}
		if err := client.Delete(ctx, o.GetName(), background); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("%s: %w", describe(o), err)
		}
	}
	return c.awaitGone(ctx, objects)
}

// toDelete returns the objects to delete.
func (c *kubectlCommand) toDelete(ctx context.Context) (objects []*unstructured.Unstructured, err error) {
	if c.has("-f") || c.has("-k") {
		return c.objects()
	}
	if len(c.words) == 2 {
		client, name, err := c.named()
		if err != nil {
			return nil, err
		}
		o, err := client.Get(ctx, name, metav1.GetOptions{})
		return []*unstructured.Unstructured{o}, err
	}
	if !c.has("--all") || len(c.words) != 1 {
		return nil, errors.New("delete is supported with -f, -k, one kind and --all, or a kind and a name")
	}
	client, err := c.kind(c.words[0])
	if err != nil {
		return nil, err
	}
	list, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		objects = append(objects, &list.Items[i])
	}
	return objects, nil
}

var background = metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}

func (c *kubectlCommand) awaitGone(ctx context.Context, objects []*unstructured.Unstructured) error {
	for _, o := range objects {
		client, err := c.admin.resource(o)
		if err != nil {
			return err
		}
		if err := poll(ctx, "the removal of "+describe(o), func() (bool, error) {
			_, err := client.Get(ctx, o.GetName(), metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return true, nil
			}
			return false, err
		}); err != nil {
			return err
		}
	}
	return nil
}

func (c *kubectlCommand) get(ctx context.Context) error {
	if c.has("-o") {
		return c.getField(ctx)
	}
	for kind := range strings.SplitSeq(c.words[0], ",") {
		client, err := c.kind(kind)
		if err != nil {
			return err
		}
		list, err := client.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, o := range list.Items {
			fmt.Fprintln(os.Stdout, describe(&o))
		}
	}
	return nil
}

// getField prints a part of one object.
func (c *kubectlCommand) getField(ctx context.Context) error {
	path, ok := strings.CutPrefix(c.flags["-o"], "jsonpath=")
	if !ok {
		return errors.New("get is supported with -o jsonpath")
	}
	client, name, err := c.named()
	if err != nil {
		return err
	}
	o, err := client.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	text, err := evaluate(path, o)
	fmt.Fprint(os.Stdout, text)
	return err
}

func (c *kubectlCommand) patch(ctx context.Context) error {
	if c.flags["--type"] != "merge" {
		return errors.New("patch is supported with --type=merge")
	}
	return c.merge(ctx, []byte(c.flags["-p"]))
}

func (c *kubectlCommand) merge(ctx context.Context, patch []byte) error {
	client, name, err := c.named()
	if err != nil {
		return err
	}
	_, err = client.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// named returns the client of the operand, kind/name or kind and name.
func (c *kubectlCommand) named() (dynamic.ResourceInterface, string, error) {
	kind, name, ok := strings.Cut(strings.Join(c.words, "/"), "/")
	if !ok || strings.Contains(name, "/") {
		return nil, "", fmt.Errorf("%v is not supported: want a kind and a name", c.words)
	}
	client, err := c.kind(kind)
	return client, name, err
}

// kind returns a client for a kind by one of its names, in the namespace of -n.
func (c *kubectlCommand) kind(name string) (dynamic.ResourceInterface, error) {
	gvr, err := c.admin.kindNamed(name)
	if err != nil {
		return nil, err
	}
	client := c.admin.objects.Resource(gvr)
	switch {
	case c.has("--all-namespaces"):
		return client, nil
	case c.has("-n"):
		return client.Namespace(c.flags["-n"]), nil
	}
	return client.Namespace(metav1.NamespaceDefault), nil
}

func (a *administrator) kindNamed(name string) (schema.GroupVersionResource, error) {
	groups, err := restmapper.GetAPIGroupResources(a.Discovery())
	if err != nil {
		return schema.GroupVersionResource{}, err
	}
	for _, g := range groups {
		version := g.Group.PreferredVersion.Version
		for _, r := range g.VersionedResources[version] {
			if slices.Contains(append(r.ShortNames, r.Name, r.SingularName), name) && !strings.Contains(r.Name, "/") {
				return schema.GroupVersionResource{Group: g.Group.Name, Version: version, Resource: r.Name}, nil
			}
		}
	}
	return schema.GroupVersionResource{}, fmt.Errorf("the server does not have a resource %q", name)
}
