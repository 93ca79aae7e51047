package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/internal/explain"
)

// informers are the informers that a plugin's running generation needs.
type informers struct {
	mu     sync.RWMutex
	byKind map[abi.Kind]*cache.Informer
}

func (i *informers) get(kind abi.Kind) *cache.Informer {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.byKind[kind]
}

// replace puts a new set in place and releases the one before. A kind in both
// keeps running: it was acquired twice for a moment.
func (i *informers) replace(byKind map[abi.Kind]*cache.Informer) {
	i.mu.Lock()
	before := i.byKind
	i.byKind = byKind
	i.mu.Unlock()
	release(before)
}

// troubles says of each kind that cannot be followed now why not.
func (i *informers) troubles() (all []string) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	for kind, informer := range i.byKind {
		if err := informer.Err(); err != nil {
			all = append(all, fmt.Sprintf("%s: %s", kind, advise(err)))
		}
	}
	slices.Sort(all)
	return all
}

func release(byKind map[abi.Kind]*cache.Informer) {
	for _, informer := range byKind {
		informer.Release()
	}
}

// kindsOf lists the kinds that the controllers of a manifest read: what they
// are for, own, and name in reads.
func kindsOf(m *abi.Manifest) []abi.Kind {
	var kinds []abi.Kind
	for _, c := range m.Controllers {
		kinds = append(kinds, c.For)
		kinds = append(append(kinds, c.Owns...), c.Reads...)
	}
	slices.SortFunc(kinds, func(a, b abi.Kind) int {
		return slices.Compare([]string{a.APIVersion, a.Kind}, []string{b.APIVersion, b.Kind})
	})
	return slices.Compact(kinds)
}

// acquire gets an informer for each kind and waits until all follow theirs.
// What is missing is told of every kind at once. Those of the generation that
// runs are not waited for: if one follows its kind no more, that hurts the code
// that runs as much as the code that comes.
func acquire(ctx context.Context, c *cache.Cache, kinds []abi.Kind, running *informers) (map[abi.Kind]*cache.Informer, error) {
	byKind := map[abi.Kind]*cache.Informer{}
	var problems []error
	for _, kind := range kinds {
		informer, err := c.Acquire(ctx, kind)
		if err == nil {
			byKind[kind] = informer
			continue
		}
		if problems = append(problems, err); !aboutKind(err) {
			break // the next kinds would tell the same, after the same timeout
		}
	}
	for _, kind := range kinds { // in their order, so that what goes on being wrong reads the same
		if informer := byKind[kind]; informer != nil && running.get(kind) == nil {
			problems = append(problems, informer.WaitForSync(ctx))
		}
	}
	if err := notAcquired(ctx, problems); err != nil {
		release(byKind)
		return nil, err
	}
	return byKind, nil
}

// aboutKind says whether an error is about one kind and says nothing of others.
func aboutKind(err error) bool {
	var unknown *cache.UnknownKindError
	var notWatchable *cache.NotWatchableError
	return errors.As(err, &unknown) || errors.As(err, &notWatchable)
}

// notAcquired makes one error of all, one that the catalog tries again unless
// trying again cannot help.
func notAcquired(ctx context.Context, problems []error) error {
	problems = slices.DeleteFunc(problems, func(err error) bool { return err == nil })
	if len(problems) == 0 {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var reasons []string
	for _, err := range problems {
		if notWatchable := (*cache.NotWatchableError)(nil); errors.As(err, &notWatchable) {
			return kindError{err}
		}
		reasons = append(reasons, advise(err))
	}
	return &catalog.WaitError{Reason: strings.Join(slices.Compact(reasons), "; ")}
}

// kindError is a manifest that names a kind which no controller can have.
type kindError struct{ error }

// LoadStep implements what catalog labels its metric with.
func (kindError) LoadStep() string { return "kind" }

func (e kindError) Unwrap() error { return e.error }

// advise says of an error what to do. The text of one that stays is the same
// each time: it is told once.
func advise(err error) string {
	if apierrors.IsUnauthorized(err) {
		return fmt.Sprintf("the API server does not accept the host's credentials, asking again: renew those in --kubeconfig or the token of the service account (%v)", err)
	}
	if text, ok := explain.Unreachable(err); ok {
		return text + "; asking again: see that it runs and that --kubeconfig names it"
	}
	return err.Error()
}
