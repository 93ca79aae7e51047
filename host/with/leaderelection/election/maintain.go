package election

import (
	"context"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// maintainEvery is how often the Leases are looked at although nothing has changed.
const maintainEvery = time.Second

// kick makes maintain look at once.
func (e *Election) kick() {
	select {
	case e.kicked <- struct{}{}:
	default:
	}
}

// maintain keeps what the replica leads, claims and takes part in as it should be, until ctx is
// done.
func (e *Election) maintain(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.kicked:
		case <-time.After(maintainEvery):
		}
		v := e.view()
		var blocking []string
		for l, plugins := range e.joined() {
			blocking = append(blocking, l.maintain(ctx, v, plugins)...)
		}
		e.joinBlocking(blocking)
		e.ask(ctx, v)
	}
}

// view is what the watch shows of the Leases.
type view struct {
	leases map[string]*coordinationv1.Lease          // by name
	counts map[string]int                            // how many a replica holds
	others func() map[string][]*coordinationv1.Lease // by plugin: those by which other replicas claim it
}

func (e *Election) view() *view {
	v := &view{leases: e.all(), counts: map[string]int{}}
	for _, lease := range v.leases {
		v.counts[holder(lease)]++
	}
	v.others = sync.OnceValue(func() map[string][]*coordinationv1.Lease {
		others := map[string][]*coordinationv1.Lease{}
		for _, lease := range v.leases {
			if holder(lease) == e.Identity {
				continue
			}
			for _, plugin := range claimed(lease) {
				others[plugin] = append(others[plugin], lease)
			}
		}
		return others
	})
	return v
}

// joined returns the Leases with their plugins.
func (e *Election) joined() map[*Lease][]*Plugin {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := map[*Lease][]*Plugin{}
	for _, l := range e.leases {
		all[l] = nil
	}
	for _, p := range e.plugins {
		all[p.Lease] = append(all[p.Lease], p)
	}
	return all
}

// joinBlocking takes part in the elections of the Leases by which other replicas claim plugins
// of this one. If such a replica is gone this one takes the Lease over, and gives it up.
func (e *Election) joinBlocking(names []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, name := range names {
		e.join(name)
	}
	for name, l := range e.leases {
		l.blocks = slices.Contains(names, name)
	}
}

// maintain looks after one Lease. It returns the names of others that keep plugins of it from
// being led here.
func (l *Lease) maintain(ctx context.Context, v *view, plugins []*Plugin) (blocking []string) {
	goes := v.isAskedFor(l)
	wanted, sends, names := l.blocks, 0, []string{}
	for _, p := range plugins {
		if goes {
			p.close()
		} else {
			blocking = append(blocking, p.look(v)...)
		}
		if p.isClaimed() {
			names = append(names, p.Name)
		}
		sends += p.sends()
		wanted = wanted || p.isActive()
	}
	slices.Sort(names)
	l.setClaims(names)
	if l.e.retired.Load() {
		wanted = wanted && l.isLed()
	}
	l.setWanted(wanted || sends > 0)
	switch {
	case (goes || !wanted) && sends == 0:
		l.giveUp()
	case !goes && l.Leads():
		l.correct(ctx, v)
	}
	return blocking
}

// correct writes what is wrong in the annotations of a Lease that the replica leads.
func (l *Lease) correct(ctx context.Context, v *view) {
	have := l.Annotations()
	changes := map[string]*string{}
	l.mu.Lock()
	if have[ClaimsAnnotation] != l.claims {
		changes[ClaimsAnnotation] = nil
		if l.claims != "" {
			changes[ClaimsAnnotation] = new(l.claims)
		}
	}
	l.mu.Unlock()
	if by := annotationsOf(v.leases[l.Name])[PreferredHolderAnnotation]; by != "" { // and the replica stays
		changes[PreferredHolderAnnotation] = nil
	}
	if len(changes) == 0 || !l.correcting.CompareAndSwap(false, true) {
		return
	}
	l.e.running.Go(func() {
		defer l.e.kick()
		defer l.correcting.Store(false)
		if err := l.Annotate(ctx, changes); err != nil {
			l.e.Logger.Debug("cannot correct a Lease", "lease", l.Name, "error", err)
		}
	})
}
