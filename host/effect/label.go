package effect

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/internal/explain"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/rights"
)

// This file labels the objects that a plugin has owned since before it was managed
// ([abi.Manifest.Managed]).

const (
	// labelPage is how many objects are listed at once, which bounds the memory.
	labelPage = 500
	// maxLabelAttempts is how often the objects of a kind are listed without any of
	// them being labelled, because the list expired or the objects changed meanwhile.
	maxLabelAttempts = 5
)

// LabelChildren sets the label [abi.LabelManagedBy] of every object that one of the
// controllers has applied or adopted and its primary controls, and that lacks it. Nothing else of
// the objects is changed. It must return without an error before only labelled
// objects are followed.
// It waits for the limit of writes, until ctx ends. If there is nothing to label it
// costs one list of metadata for each kind and namespace. It returns the lists in which it
// has labelled objects. What a running revision applies meanwhile has to be labelled:
// [Performer.BeginLabelling].
func (p *Performer) LabelChildren(ctx context.Context, controllers []abi.Controller) (labelled []Labelled, err error) {
	owners := ownersOf(controllers)
	for _, kind := range slices.SortedFunc(maps.Keys(owners), compareKinds) {
		r, err := p.Store.Resource(ctx, kind)
		if err != nil {
			return nil, fmt.Errorf("label objects of %s: %w", kind, err)
		}
		for _, namespace := range p.namespacesOf(r) {
			l := kindLabelling{Performer: p, Resource: r, namespace: namespace, owners: owners[kind]}
			if err := l.run(ctx); err != nil {
				return nil, fmt.Errorf("label objects of %s with %s: %w", kind, abi.LabelManagedBy, err)
			}
			if l.version != "" {
				labelled = append(labelled, Labelled{kind, namespace, l.version})
			}
		}
	}
	return labelled, nil
}

// labelling is whether performers label what is owned that are not managed themselves.
type labelling struct {
	mu         sync.Mutex
	on         bool
	unlabelled int           // calls that have begun while it was not on
	ended      chan struct{} // closed when the last of them has ended
}

// BeginLabelling makes the performer label what it applies for an owner, as if it were
// managed, and with it all those that share its records. It blocks until the calls that
// began before have ended, or ctx: from then on nothing is created without the label.
func (p *Performer) BeginLabelling(ctx context.Context) error {
	l := &p.labelling
	l.mu.Lock()
	l.on = true
	none, ended := l.unlabelled == 0, l.ended
	l.mu.Unlock()
	if none {
		return nil
	}
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for applies without the label %s: %w", abi.LabelManagedBy, context.Cause(ctx))
	}
}

// EndLabelling ends what [Performer.BeginLabelling] has begun.
func (p *Performer) EndLabelling() {
	p.labelling.mu.Lock()
	defer p.labelling.mu.Unlock()
	p.labelling.on = false
}

// call reports whether a call labels what is owned. end must be called when it has ended.
func (l *labelling) call() (on bool, end func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.on {
		return true, func() {}
	}
	if l.unlabelled++; l.unlabelled == 1 {
		l.ended = make(chan struct{})
	}
	return false, l.endUnlabelled
}

func (l *labelling) endUnlabelled() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unlabelled--; l.unlabelled == 0 {
		close(l.ended)
	}
}

// Labelled are objects that were labelled.
type Labelled struct {
	Kind      abi.Kind
	Namespace string // "" for all
	Version   string // a resourceVersion at which all of them have the label
}

// ownersOf returns the controllers that own each kind.
func ownersOf(controllers []abi.Controller) map[abi.Kind][]*abi.Controller {
	all := map[abi.Kind][]*abi.Controller{}
	for i := range controllers {
		for _, owned := range controllers[i].Owns {
			all[owned.Kind] = append(all[owned.Kind], &controllers[i])
		}
	}
	return all
}

func compareKinds(a, b abi.Kind) int { return strings.Compare(a.String(), b.String()) }

// namespacesOf returns the namespaces that have to be listed, "" for all at once.
func (p *Performer) namespacesOf(r object.Resource) []string {
	if r.Namespaced && p.Namespaces != nil {
		return p.Namespaces
	}
	return []string{""}
}

// kindLabelling labels the objects of one kind in one namespace, or in all.
type kindLabelling struct {
	*Performer
	object.Resource
	namespace string
	owners    []*abi.Controller // of the kind
	labelled  int
	version   string // of the last one
}

// run lists the objects without the label until none of them needs it. It starts
// again if the list has expired, or objects could not be labelled because they
// changed: those that have been labelled are not listed any more.
func (l *kindLabelling) run(ctx context.Context) error {
	for attempts := 0; ; attempts++ {
		before := l.labelled
		err := l.pass(ctx)
		if l.labelled > before {
			attempts = 0
		}
		if !isOutdated(err) || attempts == maxLabelAttempts {
			return err
		}
	}
}

// isOutdated reports whether a pass failed because the list is too old, for the API
// server to continue it (410) or for one of the objects.
func isOutdated(err error) bool {
	return err != nil && (apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || classify(err).Conflict)
}

// pass lists the objects without the label once. The error is a conflict if one of
// them has not been labelled.
func (l *kindLabelling) pass(ctx context.Context) (conflict error) {
	for token := ""; ; {
		page, next, err := l.client.listMetadata(ctx, l.Resource, l.namespace, abi.LabelManagedBy+"!="+l.Plugin, token, labelPage)
		if err != nil {
			return explain.Forbidden(err, "list")
		}
		for i := range page {
			err := l.labelOne(ctx, &page[i])
			if err != nil {
				err = fmt.Errorf("%s: %w", object.Key{Namespace: page[i].Namespace, Name: page[i].Name}, explain.Forbidden(err))
			}
			if err != nil && !isOutdated(err) {
				return err
			}
			conflict = cmp.Or(err, conflict)
		}
		if token = next; token == "" {
			return conflict
		}
	}
}

// labelOne labels an object that a controller has applied or adopted for its primary.
func (l *kindLabelling) labelOne(ctx context.Context, o *metav1.PartialObjectMetadata) error {
	i := slices.IndexFunc(l.owners, func(c *abi.Controller) bool {
		return isPrimaryOf(c, metav1.GetControllerOfNoCopy(o)) && hasMade(*o, l.manager(c))
	})
	if i < 0 {
		return nil
	}
	key := object.Key{Namespace: o.Namespace, Name: o.Name}
	if may, err := l.mayLabel(ctx, l.owners[i], key); err != nil || !may {
		return err
	}
	if l.DryRun {
		l.Logger.Info("dry run: would label", "object", l.Kind.Ref(key.Namespace, key.Name).String())
		return nil
	}
	if err := l.waitToWrite(ctx); err != nil {
		return err
	}
	reply, err := l.client.patch(ctx, l.Resource, key, patch{
		patchType: types.MergePatchType, manager: l.manager(l.owners[i]), body: l.labelPatch(o),
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		l.labelled++
		l.version = reply.ResourceVersion
	}
	return err
}

// mayLabel reports whether a controller may change an object that it owns. What it may not
// change any more stays as it is.
func (l *kindLabelling) mayLabel(ctx context.Context, c *abi.Controller, key object.Key) (bool, error) {
	primary, err := l.Store.Resource(ctx, c.For.Kind)
	if err != nil {
		return false, err
	}
	own := ""
	if primary.Namespaced {
		own = key.Namespace
	}
	return l.Allow.Followed(l.Kind, rights.Patch).Has(l.Namespaced, key.Namespace, own), nil
}

// isPrimaryOf reports whether an owner reference, nil for none, is to a primary of a
// controller, in whatever version.
func isPrimaryOf(c *abi.Controller, owner *metav1.OwnerReference) bool {
	if owner == nil || owner.Kind != c.For.Kind.Kind {
		return false
	}
	gv, err := schema.ParseGroupVersion(owner.APIVersion)
	return err == nil && gv.Group == c.For.Group()
}

// labelPatch returns a merge patch that sets the label of an object, not of another one of
// its name.
func (l *kindLabelling) labelPatch(o *metav1.PartialObjectMetadata) []byte {
	w := rawjson.NewWriter(nil)
	w.Object(func() {
		w.Name("metadata").Object(func() {
			w.Name("uid").String(string(o.UID))
			if version := l.onlyVersion(o.ResourceVersion); version != "" {
				w.Name("resourceVersion").String(version)
			}
			w.Name("labels").Object(func() { w.Name(abi.LabelManagedBy).String(l.Plugin) })
		})
	})
	return w.Bytes()
}

// waitToWrite blocks until the limit of writes has a place, or ctx is done.
func (p *Performer) waitToWrite(ctx context.Context) error {
	if p.writes == nil {
		return nil
	}
	began := time.Now()
	err := p.writes.Wait(ctx)
	if p.ObserveWait != nil {
		p.ObserveWait(time.Since(began))
	}
	return err
}
