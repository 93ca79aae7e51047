package devloop

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"

	"github.com/thole-dev/thole/cmd/internal/command"
	"github.com/thole-dev/thole/internal/kubeconfig"
)

// controlPlaneProgram is the embedded control plane.
const controlPlaneProgram = "thole-devcluster"

// findControlPlane returns the program that is named, else the one beside this
// program, else that of the PATH.
func findControlPlane(named string) (string, error) {
	advice := "build it by `make devcluster` in the repository of Thole, which takes some minutes the first time, and name it with --devcluster; or name a cluster of your own with --kubeconfig"
	if named != "" {
		path, err := exec.LookPath(named)
		if err != nil {
			return "", fmt.Errorf("the embedded control plane: %w: %s", err, advice)
		}
		return path, nil
	}
	path, err := command.Find(controlPlaneProgram)
	if err != nil {
		return "", fmt.Errorf("the embedded control plane: no %s beside thole or in PATH: %s", controlPlaneProgram, advice)
	}
	return path, nil
}

// startCluster starts the embedded control plane, unless a kubeconfig was given.
func (s *session) startCluster(ctx context.Context) (err error) {
	if s.Kubeconfig == "" {
		if err := s.startControlPlane(ctx); err != nil {
			return err
		}
		if s.cluster, err = kubeconfig.Load(s.kubeconfig()); err != nil {
			return err
		}
	} else {
		s.out.say("cluster", plain, "%s, from %s", s.cluster.Host, s.Kubeconfig)
	}
	s.client, err = newClient(s.cluster)
	return err
}

func (s *session) startControlPlane(ctx context.Context) error {
	s.out.say("cluster", faint, "starting the embedded control plane")
	begin := time.Now()
	if err := os.MkdirAll(s.data(), 0o700); err != nil {
		return fmt.Errorf("make the directory of the control plane: %w", err)
	}
	cmd := exec.Command(s.controlPlane, "--dir", s.data(), "--kubeconfig-out", s.kubeconfig(), "--stop-with-stdin")
	// Our end of the pipe is closed when this process ends, however it ends, and
	// the control plane stops then.
	if _, err := cmd.StdinPipe(); err != nil {
		return err
	}
	stdout := &lineWaiter{line: "ready", seen: make(chan struct{})}
	cmd.Stdout = stdout
	process, err := startProcess("control plane", s.path("control-plane.log"), cmd)
	if err != nil {
		return fmt.Errorf("start the control plane: %w", err)
	}
	s.process = process
	go process.watch(s.over, s.Hurry, s.fail)
	select {
	case <-stdout.seen:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.out.say("cluster", good, "ready in %s; for kubectl in another terminal:", shortDuration(time.Since(begin)))
	s.out.text("export KUBECONFIG=" + shellWord(s.kubeconfig()))
	return nil
}

// lineWaiter is a writer that closes seen when a line has been written.
type lineWaiter struct {
	line string
	text strings.Builder
	seen chan struct{}
	once sync.Once
}

func (w *lineWaiter) Write(p []byte) (int, error) {
	w.text.Write(p)
	if strings.Contains("\n"+w.text.String(), "\n"+w.line+"\n") {
		w.once.Do(func() { close(w.seen) })
	}
	return len(p), nil
}

// data is the directory of the control plane.
func (s *session) data() string {
	if s.Data != "" {
		return s.Data
	}
	return s.path("control-plane")
}

// kubeconfig is the path of the kubeconfig of the cluster.
func (s *session) kubeconfig() string {
	switch {
	case s.Kubeconfig != "":
		return s.Kubeconfig
	case s.Data != "":
		return filepath.Join(s.Data, "kubeconfig")
	}
	return s.path("kubeconfig")
}

// applyFile applies one of the files beside the source, if it exists and the
// cluster is one to apply it to.
func (s *session) applyFile(ctx context.Context, name string) {
	if s.Kubeconfig != "" && !s.Apply {
		return
	}
	objects, err := readManifests(filepath.Join(s.Dir, name))
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	if err != nil {
		s.out.say("error", bad, "read %s: %v", name, err)
		return
	}
	for _, o := range objects {
		if name == sampleFile {
			s.watchSample(ctx, o)
		}
		if err := s.client.apply(ctx, o, metav1.ApplyOptions{}); err != nil {
			s.out.say("error", bad, "apply %s of %s: %v", named(o), name, err)
			continue
		}
		s.out.say("applied", plain, "%s", named(o))
	}
}

type object = unstructured.Unstructured

// readManifests reads the objects of a file, in their order.
func readManifests(path string) (objects []*object, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		var content any
		if err == nil {
			err = yaml.Unmarshal(document, &content)
		}
		fields, ok := content.(map[string]any)
		o := &object{Object: fields}
		switch {
		case err != nil:
			return nil, fmt.Errorf("not valid YAML: %s", strings.TrimPrefix(err.Error(), "error converting YAML to JSON: yaml: "))
		case content == nil, ok && len(fields) == 0: // nothing but comments
		case !ok:
			return nil, errors.New("not an object: write its apiVersion, kind and metadata")
		case o.GetKind() == "" || o.GetAPIVersion() == "" || o.GetName() == "":
			return nil, errors.New("apiVersion, kind or metadata.name is missing")
		default:
			objects = append(objects, o)
		}
	}
}

const (
	// fieldManager is the one of thole dev, which applies crd.yaml and sample.yaml.
	fieldManager = "thole-dev"
	// servedTimeout is how long a kind may take to be served: the API server needs
	// a moment for a CustomResourceDefinition that was just applied.
	servedTimeout  = 30 * time.Second
	servedInterval = 50 * time.Millisecond
)

// client acts for the user.
type client struct {
	dynamic.Interface
	discovery discovery.DiscoveryInterface
}

func newClient(cluster *rest.Config) (*client, error) {
	config := rest.CopyConfig(cluster)
	config.QPS = -1 // a handful of requests
	config.UserAgent = fieldManager
	dynamicClient, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	discoveryClient, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return &client{dynamicClient, discoveryClient}, nil
}

var errNotServed = errors.New("the API server does not serve the kind: apply its CustomResourceDefinition")

// apply is a server-side apply, which takes fields over from other managers. It
// waits for a kind that is not served yet.
func (c *client) apply(ctx context.Context, o *object, options metav1.ApplyOptions) error {
	options.FieldManager, options.Force = fieldManager, true
	return untilServed(ctx, func(ctx context.Context) error {
		resource, err := c.resourceOf(o)
		if err != nil {
			return err
		}
		_, err = resource.Apply(ctx, o.GetName(), o, options)
		if apierrors.IsNotFound(err) && !namespaceNotFound(err, o) {
			return errNotServed // discovery has it already
		}
		return err
	})
}

func untilServed(ctx context.Context, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, servedTimeout)
	defer cancel()
	for {
		err := try(ctx)
		if !errors.Is(err, errNotServed) || !sleep(ctx, servedInterval) {
			return err
		}
	}
}

// namespaceNotFound reports whether an error is about the namespace of an object
// and not about its kind.
func namespaceNotFound(err error, o *object) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && status.ErrStatus.Details != nil && status.ErrStatus.Details.Kind == "namespaces" && o.GetKind() != "Namespace"
}

// resourceOf returns where an object is served. An object without a namespace
// gets the default one if its kind has namespaces.
func (c *client) resourceOf(o *object) (dynamic.ResourceInterface, error) {
	resource, namespaced, err := c.find(o.GroupVersionKind())
	if err != nil || !namespaced {
		return c.Resource(resource), err
	}
	if o.GetNamespace() == "" {
		o.SetNamespace(metav1.NamespaceDefault)
	}
	return c.Resource(resource).Namespace(o.GetNamespace()), nil
}

// find returns the resource of a kind, or errNotServed.
func (c *client) find(kind schema.GroupVersionKind) (resource schema.GroupVersionResource, namespaced bool, err error) {
	list, err := c.discovery.ServerResourcesForGroupVersion(kind.GroupVersion().String())
	if err != nil && !apierrors.IsNotFound(err) {
		return resource, false, err
	}
	if list != nil {
		for _, r := range list.APIResources {
			if r.Kind == kind.Kind && !strings.Contains(r.Name, "/") {
				return kind.GroupVersion().WithResource(r.Name), r.Namespaced, nil
			}
		}
	}
	return resource, false, errNotServed
}

// resourceNames returns a function that names the resource of a kind for kubectl: by the kind in
// lower case, such as foo, or by foos.example.com if kubectl takes the short name for another one.
func (c *client) resourceNames() func(schema.GroupVersionKind) string {
	groups, err := restmapper.GetAPIGroupResources(c.discovery)
	if err != nil {
		groups = nil // then nothing is found, and names are those of the kinds
	}
	mapper := restmapper.NewShortcutExpander(restmapper.NewDiscoveryRESTMapper(groups), c.discovery, nil)
	return func(kind schema.GroupVersionKind) string {
		name := strings.ToLower(kind.Kind)
		mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			return name
		}
		wanted := mapping.Resource.GroupResource()
		if found, err := mapper.ResourceFor(schema.GroupVersionResource{Resource: name}); err != nil || found.GroupResource() != wanted {
			return wanted.String()
		}
		return name
	}
}

// named names an object for people.
func named(o *object) string {
	name := o.GetName()
	if o.GetNamespace() != "" {
		name = o.GetNamespace() + "/" + name
	}
	return o.GetKind() + " " + name
}
