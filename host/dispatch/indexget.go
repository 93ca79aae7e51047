package dispatch

import (
	"context"
	"fmt"
	"strings"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/index"
	"github.com/thole-dev/thole/host/rights"
	"github.com/thole-dev/thole/host/sandbox"
)

// IndexGet implements the host function index_get (SPEC.md, "index_get"): a list of what the
// index has, as one of any kind.
func (g *guestCall) IndexGet(ctx context.Context, served sandbox.ReadCall) (sandbox.Reply, int64) {
	call, err := abi.DecodeIndexGetCall(served.Message)
	if err != nil {
		return g.invalid("index_get", err)
	}
	x, listed := g.revision.Controller.IndexByKeys(call.Index)
	if !listed {
		g.warn("read denied: the plugin has no index function of that name", "index", call.Index)
		return sandbox.Reply{}, abi.CodeDenied
	}
	namespaces, code := g.indexScope(ctx, x.Kind, call.Namespace)
	if code != 0 {
		return sandbox.Reply{}, code
	}
	found, err := g.reads.List(cache.Reading{
		Kind: index.Kind(g.c.Plugin, x.Name), Namespaces: namespaces, Fields: index.Having(strings.Clone(call.Key)), Look: served.Pay,
	})
	if err != nil {
		return sandbox.Reply{}, g.unavailable("index_get", x.Kind, err)
	}
	return g.indexReply(found, call.Key, served.MaxReply)
}

// indexScope returns the namespaces of which a run may read an index of a kind, nil for all.
func (g *guestCall) indexScope(ctx context.Context, kind abi.Kind, namespace string) (in []string, code int64) {
	allowed, code := g.listScope(kind, namespace)
	if code != 0 {
		return nil, code
	}
	in = g.revision.Scopes.Reads[kind].Namespaces(allowed)
	if in != nil && len(in) == 0 {
		return nil, g.notAllowed(kind, rights.List, namespace)
	}
	return in, g.mayList(ctx, kind, in)
}

// readKind returns the kind that an account must be able to read to see an object: of what an
// index has, that of the objects which have the keys.
func (c *Controller) readKind(kind abi.Kind) abi.Kind {
	name, ok := index.NameOf(c.Plugin, kind)
	if !ok {
		return kind
	}
	x, _ := c.revision.Load().Controller.IndexByKeys(name)
	return x.Kind
}

// indexReply is an [abi.IndexReply] with what objects of an index have for a key.
func (g *guestCall) indexReply(found cache.List, key string, most int) (sandbox.Reply, int64) {
	reply, size := abi.IndexReply{}, 0
	for _, o := range found.Items {
		item, err := index.Lookup(o, key)
		if err != nil {
			return sandbox.Reply{}, g.unavailable("index_get", o.Kind, fmt.Errorf("index: %w", err))
		}
		if size += len(item.Namespace) + len(item.Name) + len(item.Value); size > most {
			return sandbox.Reply{}, abi.CodeTooLarge
		}
		reply.Items = append(reply.Items, item)
	}
	return sandbox.Bytes(abi.EncodeIndexReply(&reply)), 0
}
