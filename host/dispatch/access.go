package dispatch

import (
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
)

// Access is what the service account of a plugin may do with objects of the kinds that the
// plugin follows, as the API server decides. It is safe for concurrent use.
type Access interface {
	// May returns nil if the account may use a verb on an object, on all objects of a
	// namespace if the key has no name, or on all that there are if it has no namespace
	// either. The error is an [access.DeniedError], or that of asking.
	May(ctx context.Context, verb string, kind abi.Kind, key object.Key) error
	// Known is May without asking: known is false if the answer is not remembered.
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
	toGet  = verbs{rights.Get}
	toList = verbs{rights.List}
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

// may returns 0 if the account may do what the guest asks, else the code of the read.
func (r *run) may(ctx context.Context, v verbs, kind abi.Kind, key object.Key) int64 {
	if r.revision.Access == nil {
		return 0
	}
	err := r.c.allowed(ctx, r.revision.Access, questionOf(v, kind, key))
	switch {
	case err == nil:
		return 0
	case access.Denied(err):
		return r.forbidden(kind, err)
	}
	r.incomplete = err
	r.warn("it is not known whether the service account of the plugin may read; the run is repeated", "kind", kind.String(), "error", err)
	return abi.CodeUnavailable
}

// mayList is may for a list of the namespaces, nil for all that there are.
func (r *run) mayList(ctx context.Context, kind abi.Kind, namespaces []string) int64 {
	if namespaces == nil {
		return r.may(ctx, toList, kind, object.Key{})
	}
	for _, namespace := range namespaces {
		if code := r.may(ctx, toList, kind, object.Key{Namespace: namespace}); code != 0 {
			return code
		}
	}
	return 0
}
