package dispatch

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/access"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/rights"
	"github.com/thole-dev/thole/host/sanitize"
)

// This file decides what a guest may read, and what its service account may see.

// mayRead decides whether the guest may get an object, or list those of a namespace or, without one, of all that its
// primary reaches. The manifest, the policy, what is followed, and the rights of the service account may say no, in
// this order. followed narrows the namespaces that the policy allows, nil for all that there are, to those that are
// followed. They are returned. The key gets the namespace that is meant if a get names none.
func (g *guestCall) mayRead(
	ctx context.Context, verb string, kind abi.Kind, key *object.Key, followed func(in []string) ([]string, int64),
) (in []string, code int64) {
	if !g.revision.Controller.MayRead(kind) {
		g.warn("read denied: the kind is in none of For, Owns, Reads and Watches of the controller", "kind", kind.String())
		return nil, abi.CodeDenied
	}
	namespaced, err := g.c.Cache.Namespaced(kind)
	if err != nil { // the revision is replaced by one that does not read the kind
		return nil, g.unavailable("read", kind, err)
	}

	own, reach := g.given.Namespace, g.revision.Reads[kind].List
	if verb == rights.Get {
		reach, key.Namespace = g.revision.Reads[kind].Get, cmp.Or(key.Namespace, own)
	}
	if !namespaced {
		key.Namespace = ""
	}
	switch allowed := reach.Has(namespaced, key.Namespace, own); {
	case namespaced && verb == rights.List && key.Namespace == "":
		in = reach.Namespaces(own)
	case !allowed && verb == rights.Get:
		return nil, g.notAllowed(kind, verb, key.Namespace)
	case !allowed:
		in = []string{}
	case namespaced:
		in = []string{key.Namespace}
	}

	switch in, code = followed(in); {
	case code != 0:
		return nil, code
	case in == nil:
		return nil, g.may(ctx, verb, kind, object.Key{Name: key.Name})
	case len(in) == 0:
		return nil, g.notAllowed(kind, verb, key.Namespace)
	}
	for _, namespace := range in { // of one that is not followed the host may not be allowed to ask
		if code := g.may(ctx, verb, kind, object.Key{Namespace: namespace, Name: key.Name}); code != 0 {
			return nil, code
		}
	}
	return in, 0
}

// may returns 0 if the account may do what the guest asks, else the code of the read.
func (g *guestCall) may(ctx context.Context, verb string, kind abi.Kind, key object.Key) int64 {
	if g.revision.Access == nil {
		return 0
	}
	err := g.c.allowed(ctx, g.revision.Access, questionOf(verbs{verb}, kind, key))
	switch {
	case err == nil:
		return 0
	case access.Denied(err):
		return g.forbidden(kind, err)
	}
	g.incomplete = err
	g.warn("it is not known whether the service account of the plugin may read; the run is repeated", "kind", kind.String(), "error", err)
	return abi.CodeUnavailable
}

// notAllowed returns the code of a read that the policy does not allow.
func (g *guestCall) notAllowed(kind abi.Kind, verb, namespace string) int64 {
	if g.mayLog(sanitize.LogBytes(kind.String()) + maxNamespace) {
		namespace = sanitize.Truncate(namespace, maxNamespace) // the guest has written it
		g.logger().Warn("read denied: the policy of the plugin does not allow it; an entry in its allow would",
			"kind", kind.String(), "namespace", namespace, "entry", rights.EntryFor(kind, "", verb, namespace, g.given.Namespace).String())
	}
	return abi.CodeDenied
}

// maxNamespace is the length of a name of a namespace.
const maxNamespace = 63

// denied returns the code of a read of what is not followed.
func (g *guestCall) denied(kind abi.Kind, reason error) int64 {
	g.warn("read denied: outside of what the controller and the policy let the plugin follow", "kind", kind.String(), "error", reason)
	return abi.CodeDenied
}

// forbidden returns the code of a read that the plugin lacks a right for.
func (g *guestCall) forbidden(kind abi.Kind, reason error) int64 {
	g.warn("read denied: the plugin lacks a right", "kind", kind.String(), "error", reason)
	return abi.CodeDenied
}

// Access is what the service account of a plugin may do with objects of the kinds that the
// plugin follows, as the API server decides. It is safe for concurrent use.
type Access interface {
	// May returns nil if the account may use a verb on an object, on all objects of a
	// namespace if the key has no name, or on all that there are if it has no namespace
	// either. The error is one of [access.Denied], or that of asking.
	May(ctx context.Context, verb string, kind abi.Kind, key object.Key) error
	// Known is May without asking: known is false if the answer is not remembered. It is
	// called for each event, and must not block.
	Known(verb string, kind abi.Kind, key object.Key) (allowed, known bool)
}

// question is whether the account may use one of some verbs on an object.
type question struct {
	verbs verbs
	kind  abi.Kind
	key   object.Key
}

// verbs are one or two; "" is none.
type verbs [2]string

var (
	toGet   = verbs{rights.Get}
	toWatch = verbs{rights.Watch}
	toRead  = verbs{rights.Get, rights.List} // a run may have read the object either way
)

// questionOf returns the question for an object. Its names may be those of a guest, and are
// remembered: with one that is too long for a name it is about all that could be meant.
func questionOf(v verbs, kind abi.Kind, key object.Key) question {
	switch {
	case len(key.Namespace) > maxNamespace:
		key = object.Key{}
	case len(key.Name) > maxName:
		key.Name = ""
	}
	return question{v, kind, key}
}

// maxName is the length of a name of an object, but for those of very few kinds.
const maxName = validation.DNS1123SubdomainMaxLength

// known returns the answer if it is remembered.
func (q question) known(a Access) (allowed, known bool) {
	known = true
	for _, verb := range q.verbs {
		if verb == "" {
			break
		}
		may, remembered := a.Known(verb, q.kind, q.key)
		if may && remembered {
			return true, true
		}
		known = known && remembered
	}
	return false, known
}

// ask returns nil if the account may. The error is that of [Access].May for the first verb
// that it has one for other than a missing right, else for the first verb.
func (q question) ask(ctx context.Context, a Access) (denied error) {
	// The answer is remembered for longer than the message of a guest is there.
	kind := abi.Kind{APIVersion: strings.Clone(q.kind.APIVersion), Kind: strings.Clone(q.kind.Kind)}
	key := object.Key{Namespace: strings.Clone(q.key.Namespace), Name: strings.Clone(q.key.Name)}
	for _, verb := range q.verbs {
		if verb == "" {
			break
		}
		err := a.May(ctx, verb, kind, key)
		switch {
		case err == nil:
			return nil
		case !access.Denied(err):
			return err
		case denied == nil:
			denied = err
		}
	}
	return denied
}

// Bounds of how long runs wait for answers. Keys whose answers are known need the workers.
const (
	answerTimeout = 2 * time.Second
	// afterSlow is for how long no run asks after one has waited for answerTimeout.
	afterSlow = 10 * time.Second
)

var errNoAnswer = errors.New("the API server has not answered in time what the service account of the plugin may read")

// allowed returns nil if a run may do what is asked.
func (c *Controller) allowed(ctx context.Context, a Access, q question) error {
	if a == nil {
		return nil
	}
	allowed, known := q.known(a)
	switch {
	case allowed && known:
		return nil
	case !known && time.Now().UnixNano() < c.slowUntil.Load():
		return errNoAnswer
	}
	bounded, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	err := q.ask(bounded, a)
	if err != nil && !access.Denied(err) && bounded.Err() != nil && ctx.Err() == nil {
		c.slowUntil.Store(time.Now().Add(afterSlow).UnixNano())
		return errNoAnswer
	}
	return err
}

// readsPrimary makes the run fail before the guest is called if the account may not read the
// primary, or if that is not known.
func (r *run) readsPrimary(ctx context.Context) {
	err := r.c.allowed(ctx, r.revision.Access, question{toGet, r.revision.Controller.For.Kind, r.item.Key})
	switch {
	case err == nil:
	case access.Denied(err):
		r.unread, r.fault = false, &outcome.Fault{Class: abi.ClassDenied, Message: err.Error()}
	default:
		r.cannotRead(err)
	}
}

// cannotRead makes the run fail because of the API server.
func (r *run) cannotRead(err error) {
	r.unread, r.fault = true, &outcome.Fault{Reason: "Unavailable", Message: err.Error()}
}
