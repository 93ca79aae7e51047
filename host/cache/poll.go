package cache

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/host/object"
)

// This file follows a kind that can be listed and not watched: it lists the kind at an
// interval, and the store finds what has changed, as after an interrupted watch.

const (
	// pollPageSize is how many objects a page has at most.
	pollPageSize = 500
	// maxPollPages bounds a list of an API that always has one more page.
	maxPollPages = 4000
	// pollJitter is the largest part of the interval that is added to it, so that
	// the lists of many kinds and hosts do not come at the same time.
	pollJitter = 0.1
)

// poller is what an informer has that polls its kind.
type poller struct {
	intervals
	unpaged bool // the next list is to be one page, because pages have expired; for poll alone
	counts  *pollCounts
}

// pollsInto makes an informer that is not started poll its kind, and count its lists.
func (i *informer) pollsInto(counts *pollCounts) {
	i.poller = &poller{intervals: newIntervals(), counts: counts}
	i.health.polled, i.store.polled = true, true
}

// poll lists the kind until ctx is done: again after an interval or, if that has
// failed, after a pause that grows.
func (l listWatch) poll(ctx context.Context) {
	backoff := *l.cache.config.backoff
	for ctx.Err() == nil {
		err := l.pollOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		l.poller.counts.add(err)
		if err != nil {
			l.health.fail(err)
			l.sleep(ctx, backoff.Step())
			continue
		}
		l.health.watching()
		backoff = *l.cache.config.backoff
		l.poller.await(ctx, l.cache.config.Clock, rand.Float64()*pollJitter)
	}
}

// pollOnce replaces the store by a list. If that is incomplete, the store stays as it is.
func (l listWatch) pollOnce(ctx context.Context) error {
	version := strconv.FormatUint(l.poller.counts.begun.Add(1), 10)
	items, err := l.listAll(ctx)
	if err != nil {
		return err
	}
	return l.store.Replace(items, version)
}

// listAll lists the kind in pages. Of an object that comes twice, because it was changed
// between two pages, the later one counts.
func (l listWatch) listAll(ctx context.Context) (items []any, err error) {
	at := map[object.Key]int{}
	options := metav1.ListOptions{Limit: pollPageSize}
	if l.poller.unpaged {
		options.Limit = 0
	}
	for range maxPollPages {
		page, err := l.page(ctx, options)
		if err != nil {
			l.poller.unpaged = options.Continue != "" && needsList(err)
			return nil, err
		}
		for _, o := range page.Items {
			if n, twice := at[o.Key()]; twice {
				items[n] = o
				continue
			}
			at[o.Key()] = len(items)
			items = append(items, o)
		}
		switch page.Continue {
		case "":
			l.poller.unpaged = false
			return items, nil
		case options.Continue:
			return nil, fmt.Errorf("list %s: the API server has returned the same continue token twice", l.scope)
		}
		options.Continue = page.Continue
	}
	return nil, fmt.Errorf("list %s: the API server has returned more than %d pages", l.scope, maxPollPages)
}

// page requests a page, and returns it without what is not in the scope: an API may not
// support selectors.
func (l listWatch) page(ctx context.Context, options metav1.ListOptions) (*objectList, error) {
	req, err := l.request(ctx, options)
	if err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeoutCause(ctx, l.cache.config.StallAfter, errStalled)
	defer cancel()
	got, err := req.Do(bounded).Get()
	switch {
	case err != nil && bounded.Err() != nil:
		return nil, fmt.Errorf("list %s: %w for %s", l.scope, context.Cause(bounded), l.cache.config.StallAfter)
	case err != nil:
		l.forgetUnserved(err)
		return nil, err
	}
	page, ok := got.(*objectList)
	if !ok || !page.isOf(l.Kind()) {
		return nil, fmt.Errorf("list %s: the response of the API server is not a list of the kind", l.scope)
	}
	selected := page.Items[:0]
	for _, o := range page.Items {
		if err := l.checkItem(o); err != nil {
			return nil, fmt.Errorf("list %s: %w", l.scope, err)
		}
		if l.scope.HasSelected(o) {
			selected = append(selected, o)
		}
	}
	page.Items = selected
	return page, nil
}

// checkItem refuses an object of another kind or without a name. What an API server
// sends that Kubernetes has not generated may be anything.
func (l listWatch) checkItem(o *object.Object) error {
	key := o.Key()
	switch err := key.Validate(); {
	case o.Kind != l.Kind():
		return fmt.Errorf("the API server has returned an object of the kind %s", o.Kind)
	case err != nil:
		return fmt.Errorf("the API server has returned an object that cannot be read by its name: %w", err)
	case l.Namespaced() != (key.Namespace != ""):
		return fmt.Errorf("the API server has returned the object %q, of which the namespace is not as its discovery states", key)
	}
	return nil
}

// sleep waits until ctx is done or the pause is over.
func (l listWatch) sleep(ctx context.Context, pause time.Duration) {
	select {
	case <-ctx.Done():
	case <-l.cache.config.Clock.After(pause):
	}
}

// positionOf returns the position at which the store has everything up to a
// resourceVersion that the API server has returned.
func (i *informer) positionOf(version string) string {
	if i.poller == nil {
		return version
	}
	return strconv.FormatUint(i.poller.counts.begun.Load()+1, 10)
}

// withoutVersion returns an object without its resourceVersion, which is none if it stays the
// same when the object changes.
func withoutVersion(o *object.Object) *object.Object {
	without := *o
	without.ResourceVersion = ""
	return &without
}
