package dispatch

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/sandbox"
)

// This file stops daemons, with a last step.

// stopOrphan stops the daemon of an object that has no more runs: it is gone, also if there is
// another one of its name, or is being deleted and somebody else has removed the finalizer.
func (c *Controller) stopOrphan(ctx context.Context, key object.Key) {
	c.mu.Lock()
	d := c.daemons[key]
	c.mu.Unlock()
	if d == nil {
		return
	}
	o, exists := c.Cache.Get(key)
	if !exists || o.Identity() != d.uid ||
		o.Deleting() && !d.revision.cleansUp(o) {
		c.stopDaemon(ctx, key, d)
	}
}

// lastGiven returns the object for the last step of its daemon, or what is known of one that is gone.
func (c *Controller) lastGiven(key object.Key, d *daemon) []byte {
	if o, exists := c.Cache.Get(key); exists && o.Identity() == d.uid {
		return d.revision.given(o)
	}
	kind := d.revision.Controller.For.Kind
	w := rawjson.NewWriter(nil)
	w.Object(func() {
		w.Name("apiVersion").String(kind.APIVersion)
		w.Name("kind").String(kind.Kind)
		w.Name("metadata").Object(func() {
			w.Name("name").String(key.Name)
			if key.Namespace != "" {
				w.Name("namespace").String(key.Namespace)
			}
		})
	})
	return w.Bytes()
}

// grace returns how long the last step of a daemon may take.
func (rev *Revision) grace() time.Duration {
	if rev.Controller.Daemon.Grace > 0 {
		return time.Duration(rev.Controller.Daemon.Grace) * time.Millisecond
	}
	return defaultGrace
}

const defaultGrace = 10 * time.Second

// stopDaemon removes a daemon, with a last step if it runs. It reports whether that has given
// signals. A step in progress is waited for as long as the last one may take.
func (c *Controller) stopDaemon(ctx context.Context, key object.Key, d *daemon) (signalled bool) {
	ctx, cancel := context.WithTimeout(ctx, d.revision.grace())
	defer cancel()
	select {
	case d.step <- struct{}{}:
		defer func() { <-d.step }()
	case <-ctx.Done():
	}
	c.mu.Lock()
	present, running := c.daemons[key] == d, d.running
	if present {
		d.revision.Daemons.Reads.Forget(key) // with mu held: the next daemon of the key must not have read yet
		delete(c.daemons, key)
		d.running = false
	}
	c.mu.Unlock()
	if !present || !running {
		return false
	}
	d.revision.Daemons.stop()
	if !c.leads() { // another replica may have its own daemon of the object
		return false
	}
	result, err := c.lastStep(ctx, key, d)
	c.Metrics.Stepped(err != nil)
	if err != nil {
		c.Logger.Warn("the last step of a daemon has failed, which is stopped all the same", "object", key.String(), "error", err)
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.revision.Load(); now.Daemons == nil || now.Account != d.revision.Account {
		return false // it does not know signals, or may not have read what they tell
	}
	if s := c.keys[key]; s != nil && s.uid == d.uid {
		return c.addSignals(s, result.Signals)
	}
	for _, g := range c.goneObjects.byKey[key] { // its state may have been taken out of keys
		if g.state.uid == d.uid {
			return c.addSignals(g.state, result.Signals)
		}
	}
	return false
}

func (c *Controller) lastStep(ctx context.Context, key object.Key, d *daemon) (*abi.DaemonResult, error) {
	request := c.daemonRequest(d, []abi.DaemonEvent{abi.DaemonStop}, c.lastGiven(key, d))
	request.Now = time.Now()
	rand.Read(request.Seed[:]) // never fails
	returned, err := d.revision.Daemons.Guest.Daemon(ctx, sandbox.Call{
		Request: abi.EncodeDaemonRequestParts(request), Namespace: key.Namespace, Now: request.Now, Seed: request.Seed,
		Deadline: d.revision.grace(), Fuel: d.revision.Daemons.Fuel,
	})
	if err != nil {
		return nil, err
	}
	result, fault, _ := daemonResult(returned, d.revision.Daemons.StateBytes)
	if fault != nil {
		return nil, fmt.Errorf("class %s: %s", fault.Class, fault.Message)
	}
	return result, nil
}

// stopDaemons stops all daemons of a revision, as many at once as there are workers, and all of
// them within the grace time.
func (c *Controller) stopDaemons(ctx context.Context, rev *Revision) {
	if rev.Daemons == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, rev.grace())
	defer cancel()
	type stop struct {
		key object.Key
		*daemon
	}
	c.mu.Lock()
	all := make(chan stop, len(c.daemons))
	for key, d := range c.daemons {
		if d.revision == rev {
			all <- stop{key, d}
		}
	}
	workers := max(c.workers, 1)
	c.mu.Unlock()
	close(all)
	var stopping sync.WaitGroup
	for range workers {
		stopping.Go(func() {
			for s := range all {
				c.stopDaemon(ctx, s.key, s.daemon)
			}
		})
	}
	stopping.Wait()
}

// dropDaemons removes all daemons without a last step: another replica leads the plugin, or has
// led it, and has its own. mu is held.
func (c *Controller) dropDaemons() {
	for key, d := range c.daemons {
		d.revision.Daemons.Reads.Forget(key)
		if d.running {
			d.running = false
			d.revision.Daemons.stop()
		}
	}
	c.daemons = nil
}

// EndTerm drops what is of no use while another replica leads the plugin.
func (c *Controller) EndTerm() {
	c.idleTurns()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropDaemons()
	c.loseHeld()
	c.forgetRuns()
}
