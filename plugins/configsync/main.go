// Command configsync is a plugin: it copies ConfigMaps and Secrets that have the
// annotation configsync.thole.dev/namespaces into the namespaces that this selects, keeps
// the copies up to date, and deletes them again.
//
// A run compares the desired copies with the existing ones and requests the difference.
// So a later run can do what did not fit into one result. A copy is found by its label,
// and identified by its annotation.
package main

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/thole-dev/thole/sdk"
)

//go:generate go run github.com/thole-dev/thole/cmd/thole-tools generate

const (
	// namespacesAnnotation is on a source: a label selector of namespaces, or *.
	namespacesAnnotation = "configsync.thole.dev/namespaces"
	// sourceKey is on a copy: as a label to list copies by (see sourceLabel), and as an
	// annotation with the whole name, namespace/name.
	sourceKey = "configsync.thole.dev/source"
	// uidAnnotation and digestAnnotation are on a copy: the UID of the source, and the
	// digest of the content that was copied.
	uidAnnotation    = "configsync.thole.dev/source-uid"
	digestAnnotation = "configsync.thole.dev/digest"
)

var namespaceKind = sdk.Kind{APIVersion: "v1", Kind: "Namespace"}

func init() {
	sdk.Plugin("configsync", "0.1.0")
	register("configmap", "ConfigMap")
	register("secret", "Secret")
}

// register adds the controller for a kind of package v1.
func register(controller, kind string) {
	c := copier{
		kind:      sdk.Kind{APIVersion: "v1", Kind: kind},
		finalizer: "configsync.thole.dev/" + controller,
	}
	sdk.Register(sdk.Controller[none, none]{
		Name:      controller,
		For:       c.kind,
		Reads:     []sdk.Kind{namespaceKind},
		Writes:    []sdk.Kind{c.kind},
		Reconcile: c.reconcile,
		Cleanup:   c.cleanup,
		Warm:      []sdk.Value{Object{}, Namespace{}, notes{}, config{}},
	})
}

// none is the spec and the status, which ConfigMaps and Secrets do not have.
type none struct{}

type request = sdk.Request[none, none]

// config is the configuration in the policy of the plugin.
type config struct {
	// Sources are the namespaces from which objects may be copied; empty means all.
	Sources []string `json:"sources,omitempty"`
}

// copier copies the objects of one kind.
type copier struct {
	kind      sdk.Kind
	finalizer string // which the host adds to a source before the first copy
}

// reconcile copies a source into the namespaces that it selects. Without the annotation it
// deletes the copies that an earlier run has made.
func (c copier) reconcile(r *request) (sdk.Action, error) {
	selector, annotated := r.Annotations[namespacesAnnotation]
	switch {
	case r.Labels[sourceKey] != "" && annotated:
		return sdk.Action{}, sdk.Stalled("IsACopy", errors.New("this object is a copy, which is not copied again: remove the annotation "+namespacesAnnotation))
	case r.Labels[sourceKey] != "":
		return sdk.Empty(), nil
	case !annotated && !slices.Contains(r.Finalizers, c.finalizer): // there are no copies
		return sdk.Empty(), nil
	}
	var targets []Namespace
	if annotated {
		var err error
		if targets, err = c.targets(r, selector); err != nil {
			return sdk.Action{}, err
		}
	}
	again, err := c.sync(r, targets)
	if again == 0 {
		return sdk.AwaitChange(), err
	}
	return sdk.RequeueAfter(again), err
}

// cleanup deletes the copies before their source is removed.
func (c copier) cleanup(r *request) error {
	again, err := c.sync(r, nil)
	if again > 0 {
		return sdk.Waiting("RemovingCopies", again, errors.New("there are more copies than one run may delete"))
	}
	return err
}

// nextBatch is the time until the next run for a source with more copies than fit into
// one result.
const nextBatch = time.Second

// Namespace has the fields of a Namespace that this plugin uses.
type Namespace struct {
	Metadata sdk.ObjectMeta `json:"metadata"`
}

// targets returns the namespaces that a source selects, without its own. The host runs
// the source again when the list changes.
func (c copier) targets(r *request, selector string) (namespaces []Namespace, err error) {
	allowed := config{}
	if err := r.Config(&allowed); err != nil {
		return nil, err
	}
	if len(allowed.Sources) > 0 && !slices.Contains(allowed.Sources, r.Namespace) {
		r.Event(sdk.Warning, "NotAllowed", "nothing is copied out of namespace "+r.Namespace+": the administrator allows it by config.sources in the plugin's policy")
		return nil, nil
	}
	query := sdk.Query{Kind: namespaceKind, LabelSelector: strings.TrimSpace(selector)}
	switch query.LabelSelector {
	case "":
		return nil, invalid(selector)
	case "*":
		query.LabelSelector = ""
	}
	if err := r.List(query, &namespaces); errors.Is(err, sdk.ErrInvalid) {
		return nil, invalid(selector)
	} else if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(namespaces, func(n Namespace) bool { return n.Metadata.Name == r.Namespace }), nil
}

// invalid returns the error for an annotation that is not a selector.
func invalid(selector string) error {
	return sdk.Stalled("InvalidSelector", errors.New("annotation "+namespacesAnnotation+" is "+strconv.Quote(selector)+
		": expected a label selector of namespaces, such as team=a,env in (prod,test), or * for all"))
}

// copies returns the copies of a source, ordered by namespace.
func (c copier) copies(r *request) (copies []Object, err error) {
	err = r.List(sdk.Query{Kind: c.kind, LabelSelector: sourceKey + "=" + sourceLabel(r.Namespace, r.Name)}, &copies)
	if errors.Is(err, sdk.ErrTooLarge) {
		return nil, sdk.Stalled("TooLarge", errors.New("the copies of this object together are too large to be read: copy less, or into fewer namespaces"))
	}
	copies = slices.DeleteFunc(copies, func(o Object) bool {
		return o.Metadata.Name != r.Name || o.Metadata.Annotations[sourceKey] != r.Namespace+"/"+r.Name
	})
	return copies, err
}

// wanted returns the desired copy of a source, without its namespace.
func (c copier) wanted(r *request) (*Object, error) {
	o := &Object{}
	if err := sdk.Decode(r.Object(), o); err != nil {
		return nil, err
	}
	o.TypeMeta = c.kind.Type()
	o.Metadata = sdk.ObjectMeta{
		Name:   r.Name,
		Labels: map[string]string{sourceKey: sourceLabel(r.Namespace, r.Name)},
		Annotations: map[string]string{
			sourceKey:        r.Namespace + "/" + r.Name,
			uidAnnotation:    r.UID,
			digestAnnotation: o.digest(),
		},
	}
	return o, nil
}

// sync requests the changes that give every target its copy, and no other namespace. It
// returns the time until the next run if this one cannot request all of them, else 0.
func (c copier) sync(r *request, targets []Namespace) (again time.Duration, err error) {
	want, err := c.wanted(r)
	if err != nil {
		return 0, err
	}
	copies, err := c.copies(r)
	if err != nil {
		return 0, err
	}
	notes, err := readNotes(r)
	if err != nil {
		return 0, err
	}
	p := &plan{copier: c, request: r, want: want, notes: notes}
	if err := p.compare(targets, copies); err != nil {
		return 0, err
	}
	p.emitEvents()
	more, err := p.perform()
	p.notes.write(r)
	if more {
		return nextBatch, err
	}
	return p.again, err
}

func main() {}
