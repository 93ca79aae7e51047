package dispatch

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/sandbox"
)

// guestCall is one call of the guest: of a run, of a turn, or another one. It answers
// what the guest asks of the host meanwhile, and keeps how the call has ended.
type guestCall struct {
	c        *Controller
	revision *Revision
	key      object.Key     // of the object, or of the turn
	given    *object.Object // the object as the guest was given it; of a turn its kind alone
	id       string
	seed     [32]byte
	start    time.Time
	hold     func(context.Context) bool // is called before something is done outside of the cluster, which it may forbid; nil: nothing is to be done

	reads      Reads
	pages      pages
	liveReads  map[abi.Ref]*object.Object // from the API server; nil: there is no such object
	liveBytes  int                        // of liveReads
	incomplete error                      // why a read failed that another call can make; nil if none has

	returned   sandbox.Return
	fault      *outcome.Fault // why there is no result
	guestFault *sandbox.Fault // the cause of fault, if the guest is to blame
	replaced   bool           // the guest was closed before the call began: the next revision is to be called
}

// newCall returns a call that is about to be made. reads are set by the caller.
func (c *Controller) newCall(revision *Revision, key object.Key, given *object.Object) guestCall {
	g := guestCall{c: c, revision: revision, key: key, given: given, start: time.Now()}
	rand.Read(g.seed[:]) // never fails
	g.id = hex.EncodeToString(g.seed[:4])
	return g
}

// sandboxCall returns what the sandbox is asked to do. For namespace see [sandbox.Call].
func (g *guestCall) sandboxCall(request [][]byte, namespace string, deadline time.Duration) sandbox.Call {
	return sandbox.Call{Request: request, Namespace: namespace, Now: g.start, Seed: g.seed, Deadline: deadline, Host: g}
}

// timeout returns how long a run or a turn may take, see [abi.Controller].
func (g *guestCall) timeout() time.Duration {
	return time.Duration(g.revision.Controller.Timeout) * time.Millisecond
}

// logger returns a logger with the fields of the call. It is made on demand, since most calls do not use it.
func (g *guestCall) logger() hclog.Logger {
	return g.c.Logger.With("object", g.key.String(), "revision", g.revision.Number, "reconcileID", g.id)
}

func (g *guestCall) identity() events.Run {
	return events.Run{
		Plugin: g.c.Plugin, Controller: g.c.Name, Object: g.key.String(), Revision: g.revision.Number, ID: g.id,
	}
}
