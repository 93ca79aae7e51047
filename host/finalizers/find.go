// Package finalizers finds the finalizers that plugins have left on objects, and
// removes them for an administrator. It is the implementation of `thole
// finalizers`. The host itself never removes a finalizer whose controller does
// not run, because nobody would do the cleanup then.
//
//	find.go     finds objects with finalizers of a plugin
//	kinds.go    selects the kinds of the cluster
//	name.go     parses and formats owners and kinds
//	release.go  removes finalizers
package finalizers

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/host/internal/explain"
	"github.com/thole-dev/thole/host/object"
)

// Config selects finalizers.
type Config struct {
	Cluster *rest.Config
	Version string // of the program; part of the User-Agent
	Owner   Owner
	// Kinds are names in the form of kubectl. None selects every kind of the
	// cluster.
	Kinds     []string
	Namespace string // "" for all; cluster-scoped objects are always included
	// DryRun makes the API server validate every write and store none.
	DryRun bool

	page int64 // number of objects in one list request; default 500
}

// Held is one finalizer on one object.
type Held struct {
	Kind       object.Resource
	Object     *object.Object // its metadata; Raw is not set
	Controller string
	Finalizer  string
}

// Find returns the finalizers of the owner, by kind and in the order of the API
// server. If the error is not nil the result may be incomplete: the error names
// what could not be read.
func Find(ctx context.Context, c Config) ([]Held, error) {
	all, incomplete := discover(ctx, fastConfig(c.Cluster))
	if len(all) == 0 && incomplete != nil {
		return nil, advise(incomplete)
	}
	kinds, err := choose(all, c.Kinds)
	if err != nil {
		return nil, errors.Join(err, incomplete)
	}
	if len(c.Kinds) > 0 {
		incomplete = nil // all named kinds were found
	}
	client, err := metadata.NewForConfig(fastConfig(c.Cluster))
	if err != nil {
		return nil, fmt.Errorf("create client: %w", err)
	}
	found, err := c.listAll(ctx, client, kinds)
	return found, errors.Join(err, incomplete)
}

// listAll lists the kinds one by one. An object that is served as two kinds is
// returned once.
func (c Config) listAll(ctx context.Context, client metadata.Interface, kinds []object.Resource) (found []Held, err error) {
	seen := map[string]bool{}
	var problems []error
	for _, kind := range kinds {
		held, err := c.list(ctx, client, kind)
		if err != nil {
			problems = append(problems, fmt.Errorf("list %s: %w", KindName(kind.Kind), advise(err)))
		}
		if ctx.Err() != nil {
			break
		}
		for _, h := range held {
			if id := string(h.Object.UID) + h.Finalizer; !seen[id] {
				seen[id] = true
				found = append(found, h)
			}
		}
	}
	return found, errors.Join(problems...)
}

// list returns the finalizers of the owner on the objects of one kind.
func (c Config) list(ctx context.Context, client metadata.Interface, kind object.Resource) (held []Held, err error) {
	of := metadata.ResourceInterface(client.Resource(kind.GVR))
	if kind.Namespaced {
		of = client.Resource(kind.GVR).Namespace(c.Namespace)
	}
	options := metav1.ListOptions{Limit: cmp.Or(c.page, 500)}
	for {
		page, err := of.List(ctx, options)
		switch {
		case apierrors.IsResourceExpired(err) && options.Continue != "":
			held, options = nil, metav1.ListOptions{} // it takes too long to read the list in pages
			continue
		case apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err):
			return held, nil // its CRD was deleted meanwhile
		case err != nil:
			return held, err
		}
		for i := range page.Items {
			held = append(held, c.heldOn(kind, &page.Items[i])...)
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return held, nil
		}
	}
}

func (c Config) heldOn(kind object.Resource, o *metav1.PartialObjectMetadata) (held []Held) {
	for _, f := range o.Finalizers {
		if controller, ok := c.Owner.owns(f); ok {
			meta := o.ObjectMeta
			meta.ManagedFields = nil
			held = append(held, Held{kind, &object.Object{ObjectMeta: meta, Kind: kind.Kind}, controller, f})
		}
	}
	return held
}

// fastConfig returns a configuration without the default limit of client-go, 5
// requests per second, and without warnings about deprecated kinds.
func fastConfig(cluster *rest.Config) *rest.Config {
	config := rest.CopyConfig(cluster)
	config.QPS, config.Burst = requestsPerSecond, requestsAtOnce
	config.WarningHandler = rest.NoWarnings{}
	return config
}

// advise adds what to do about an error of the API server.
func advise(err error) error {
	if text, ok := explain.Unreachable(err); ok {
		return errors.New(text)
	}
	return explain.Forbidden(err)
}
