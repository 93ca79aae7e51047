package runner

import (
	"context"
	"sync"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cloudevents"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/egress"
	"github.com/thole-dev/thole/host/election"
	"github.com/thole-dev/thole/host/events"
)

// This file publishes the CloudEvents of a plugin: to which sinks, and when what is there is announced.

func (r *Runner) newPublisher(plugin string) *cloudevents.Publisher {
	return cloudevents.New(cloudevents.Config{
		Plugin: plugin,
		Metrics: func(sink string) cloudevents.Metrics {
			return r.Metrics.CloudEvents(plugin, sink, cloudevents.DropReasons())
		},
		Dropped: func(d cloudevents.Drop) {
			r.Events.Observe(events.CloudEventsDropped{Plugin: plugin, Sink: d.Sink, Reason: d.Reason, Why: d.Why, Events: d.Events})
		},
		Logger: r.Logger.Named("cloudevents").With("plugin", plugin),
	})
}

// sinksOf returns where the events of a revision are published: nowhere in a dry run, whose changes
// others must not take for done, and if no controller publishes any.
func sinksOf(rev *Revision) cloudevents.Settings {
	if rev.Policy.DryRun || !publishesEvents(rev.Manifest) {
		return cloudevents.Settings{}
	}
	return rev.Policy.CloudEvents
}

// sinkSecrets returns what reads the Secrets with the credentials of sinks, nil if there are none.
func (r *Runner) sinkSecrets(rev *Revision) (egress.SecretReader, error) {
	if len(sinksOf(rev).Sinks.Entries().Secrets()) == 0 {
		return nil, nil
	}
	return egress.NewSecretReader(r.Cluster, rev.Policy.Account(), "thole/"+r.Version+" plugin/"+rev.Plugin)
}

// closePublisher sends what is left of the events of a plugin that has stopped, for which
// [Runner.WaitPublished] waits. A Lease of the plugin may be given up meanwhile.
func (r *Runner) closePublisher(p *plugin) {
	r.publishing.Go(p.publisher.Close)
}

// WaitPublished waits until the events of the plugins that have stopped are sent or dropped, which takes
// 5 s at most. No plugin may be started or stopped meanwhile.
func (r *Runner) WaitPublished() { r.publishing.Wait() }

// announcer announces the objects of a controller.
type announcer struct {
	cancel context.CancelFunc
	ended  sync.WaitGroup
	renew  chan bool // whether to announce everything again, or to new sinks only; capacity 1
}

// announce makes a controller announce what is there as long as its revision publishes events. before is
// the revision until now, nil if there was none; added is set if there are new sinks.
func (c *controller) announce(before, next *dispatch.Revision, lead *election.Plugin, added bool) {
	switch {
	case !next.Controller.CloudEvents:
		c.endAnnouncing()
	case c.announcer == nil:
		ctx, cancel := context.WithCancel(context.Background())
		a := &announcer{cancel: cancel, renew: make(chan bool, 1)}
		c.announcer = a
		a.ended.Go(func() { c.announceTerms(ctx, lead, a.renew) })
	case before.Scopes.For.String() != next.Scopes.For.String():
		c.announcer.again(true)
	case added:
		c.announcer.again(false)
	}
}

// again makes the announcer begin again, with everything or for new sinks only.
func (a *announcer) again(everything bool) {
	select {
	case before := <-a.renew:
		everything = everything || before
	default:
	}
	a.renew <- everything
}

func (c *controller) endAnnouncing() {
	if c.announcer == nil {
		return
	}
	c.announcer.cancel()
	c.announcer.ended.Wait()
	c.announcer = nil
}

// announceTerms announces all objects whenever the replica begins to lead: receivers may not know what
// has happened before. With an empty cache, a watcher that polls does the same.
func (c *controller) announceTerms(ctx context.Context, lead *election.Plugin, renew <-chan bool) {
	for everything := true; ctx.Err() == nil; {
		leading, ended := termsOf(lead)
		select {
		case <-leading:
		case <-ctx.Done():
			return
		}
		round, cancel := context.WithCancel(ctx)
		var announcing sync.WaitGroup
		announcing.Go(func() { c.Announce(round, c.keys(every), everything) })
		next := true
		select {
		case <-ended:
		case next = <-renew:
		case <-ctx.Done():
		}
		cancel()
		announcing.Wait()
		everything = next
	}
}

// termsOf returns the channels of a term of [election.Plugin.Term]; of one replica, of a term without end.
func termsOf(lead *election.Plugin) (leading, ended <-chan struct{}) {
	if lead != nil {
		return lead.Term()
	}
	always := make(chan struct{})
	close(always)
	return always, nil
}

// publishesEvents reports whether a controller of a manifest publishes events.
func publishesEvents(m *abi.Manifest) bool {
	for _, c := range m.Controllers {
		if c.CloudEvents {
			return true
		}
	}
	return false
}
