// Command configsync is a plugin: ConfigMaps and Secrets that carry the
// annotation configsync.thole.dev/namespaces are copied into the namespaces
// that it selects, kept in step there, and taken away again.
//
// A run compares what is wanted with what is there and asks for the difference;
// so it knows what is left to do when a result cannot hold all of it. A copy is
// found by its label, and is known by its annotation to be of this source.
package main

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/thole-dev/thole/sdk"
)

//go:generate go run github.com/thole-dev/thole/cmd/thole generate

const (
	// namespacesAnnotation is on a source: a label selector, or *.
	namespacesAnnotation = "configsync.thole.dev/namespaces"
	// sourceKey is on a copy, as a label that finds it (see sourceLabel) and as
	// an annotation with the whole name: namespace/name.
	sourceKey = "configsync.thole.dev/source"
	// uidAnnotation and digestAnnotation say of which source, and with what
	// content, a copy was made.
	uidAnnotation    = "configsync.thole.dev/source-uid"
	digestAnnotation = "configsync.thole.dev/digest"
)

var namespaceKind = sdk.Kind{APIVersion: "v1", Kind: "Namespace"}

func init() {
	sdk.Plugin("configsync", "0.1.0")
	register("configmap", "ConfigMap")
	register("secret", "Secret")
}

func register(controller, kind string) {
	c := copier{
		kind:      sdk.Kind{APIVersion: "v1", Kind: kind},
		finalizer: "configsync.thole.dev/" + controller,
	}
	sdk.RegisterGenerated(sdk.Controller[none, none]{
		Name:      controller,
		For:       c.kind,
		Reads:     []sdk.Kind{namespaceKind},
		Writes:    []sdk.Kind{c.kind},
		Reconcile: c.reconcile,
		Cleanup:   c.cleanup,
		Warm:      []any{Object{}, []Namespace{}, notes{}, config{}},
	})
}

// none: ConfigMaps and Secrets have neither spec nor status.
type none struct{}

type request = sdk.Request[none, none]

// config is what the policy file may say.
type config struct {
	// Sources are the namespaces whose objects may be copied; empty means all.
	Sources []string `json:"sources,omitempty"`
}

// copier copies the objects of one kind.
type copier struct {
	kind      sdk.Kind
	finalizer string // that the host gives to a source before the first copy
}

func (c copier) reconcile(r *request) (sdk.Action, error) {
	selector, annotated := r.Annotations[namespacesAnnotation]
	switch {
	case r.Labels[sourceKey] != "" && annotated:
		return sdk.Action{}, sdk.Stalled("IsACopy", errors.New("a copy is not copied: remove the annotation "+namespacesAnnotation))
	case r.Labels[sourceKey] != "":
		return sdk.Empty(), nil
	case !annotated && !slices.Contains(r.Finalizers, c.finalizer): // it has no copies
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
	return sdk.RequeueAfter(again), err
}

// cleanup takes the copies away before their source goes.
func (c copier) cleanup(r *request) error {
	again, err := c.sync(r, nil)
	if again > 0 {
		return sdk.Waiting("RemovingCopies", again, errors.New("more copies are left than one run may delete"))
	}
	return err
}

// nextBatch is the pause of a source with more copies than fit into one result.
const nextBatch = time.Second

// Namespace is a Namespace, as far as this plugin cares.
type Namespace struct {
	Metadata sdk.ObjectMeta `json:"metadata"`
}

// targets lists the namespaces that a source selects, but for its own. Whatever
// changes in the list runs the source again.
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

func invalid(selector string) error {
	return sdk.Stalled("InvalidSelector", errors.New("annotation "+namespacesAnnotation+" is "+strconv.Quote(selector)+
		": expected a label selector of namespaces, such as team=a,env in (prod,test), or * for all"))
}

// copies lists the copies of a source, by namespace.
func (c copier) copies(r *request) (copies []Object, err error) {
	err = r.List(sdk.Query{Kind: c.kind, LabelSelector: sourceKey + "=" + sourceLabel(r.Namespace, r.Name)}, &copies)
	if errors.Is(err, sdk.ErrTooLarge) {
		return nil, sdk.Stalled("TooLarge", errors.New("the copies of this object are too large to be compared with it: copy less, or into fewer namespaces"))
	}
	copies = slices.DeleteFunc(copies, func(o Object) bool {
		return o.Metadata.Name != r.Name || o.Metadata.Annotations[sourceKey] != r.Namespace+"/"+r.Name
	})
	return copies, err
}

// wanted is the copy of a source, but for its namespace.
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

// sync asks for what makes the copies those of the targets. It returns when
// the next run must come because this one cannot ask for all of it, else 0.
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
	p.tell()
	more, err := p.perform()
	p.notes.write(r)
	if more {
		return nextBatch, err
	}
	return p.again, err
}

func main() {}
