package cache

import (
	"errors"
	"fmt"

	"github.com/thole-dev/thole/abi"
)

// ErrNotSynced says that an informer has not read its kind yet. The owner of
// the run is woken when it has.
var ErrNotSynced = errors.New("the informer has not synced yet")

// ErrStopped says that the informer, or the whole cache, was stopped.
var ErrStopped = errors.New("the informer is stopped")

// ErrIncomparable says that a resourceVersion cannot be compared with the
// store's: the API server behind the kind uses another notation. Read live.
var ErrIncomparable = errors.New("the resourceVersion cannot be compared")

// UnknownKindError says that the API server does not serve a kind. Its CRD may
// not be there yet: come again.
type UnknownKindError struct{ Kind abi.Kind }

func (e *UnknownKindError) Error() string {
	return fmt.Sprintf("the API server does not serve %s: install its CRD; it is looked for again", e.Kind)
}

// NotWatchableError says that the API server serves a kind which cannot be
// listed or watched, so that no informer can follow it.
type NotWatchableError struct {
	Kind    abi.Kind
	Missing string // the missing verb: list or watch
}

func (e *NotWatchableError) Error() string {
	return fmt.Sprintf("%s cannot be watched: its API has no verb %q; do not declare it under for, owns or reads", e.Kind, e.Missing)
}
