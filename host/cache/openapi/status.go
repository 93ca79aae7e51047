package openapi

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// statusSchema is the schema of the status of a kind, as it was read last.
type statusSchema struct {
	schema *object.Schema
	digest [sha256.Size]byte // of its text
	err    error             // why it could not be read; schema is then what was read before
	at     time.Time         // zero: never
}

// Status returns the schema of the status of a kind, as it was read at most maxAge ago. It is the
// same pointer as long as the schema is the same. After an error it is the one that was read
// before, nil if there is none.
func (s *Schemas) Status(ctx context.Context, kind abi.Kind, maxAge time.Duration) (*object.Schema, error) {
	last, current := s.status(kind, maxAge)
	if current || !s.acquire(ctx, !last.at.IsZero() && maxAge > 0) {
		return last.schema, cmp.Or(last.err, context.Cause(ctx))
	}
	defer func() { <-s.busy }()
	if last, current = s.status(kind, maxAge); current { // another caller has read it
		return last.schema, last.err
	}
	next, err := s.readStatus(ctx, kind, last)
	if ctx.Err() != nil {
		return last.schema, context.Cause(ctx)
	}
	next.err, next.at = err, time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.statuses[kind] = next
	return next.schema, next.err
}

// acquire makes the caller hold s.busy. It returns false if ctx is done or, with try, if another caller holds it.
func (s *Schemas) acquire(ctx context.Context, try bool) bool {
	if try {
		select {
		case s.busy <- struct{}{}:
			return true
		default:
			return false
		}
	}
	select {
	case s.busy <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// readStatus reads the schema of the status, which was last before. s.busy must be held.
func (s *Schemas) readStatus(ctx context.Context, kind abi.Kind, last statusSchema) (statusSchema, error) {
	text, err := s.document(ctx, kind.APIVersion)
	if err == nil {
		text, err = statusText(text, kind)
	}
	digest := sha256.Sum256(text)
	if err != nil || digest == last.digest {
		return last, err
	}
	schema, err := parseStatus(text)
	if err != nil {
		return last, fmt.Errorf("read the schema of the status of %s: %w", kind, err)
	}
	return statusSchema{schema: schema, digest: digest}, nil
}

// status returns what was read last. current is false if it is too old. What could not be read is
// looked for again after settlePause: a new kind is published late.
func (s *Schemas) status(kind abi.Kind, maxAge time.Duration) (last statusSchema, current bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last = s.statuses[kind]
	if last.err != nil {
		maxAge = min(maxAge, settlePause)
	}
	return last, time.Since(last.at) < maxAge
}

// statusText returns the text of the schema in a document; "" if the kind leaves open what a status has.
func statusText(text []byte, kind abi.Kind) ([]byte, error) {
	d, roots, err := readKind(text, kind)
	if err != nil {
		return nil, err
	}
	d.left = maxRead
	root, err := d.shapeOf(roots)
	if err != nil {
		return nil, err
	}
	all, err := d.at(root, "status")
	switch {
	case err != nil:
		return nil, err
	case len(all) == 1:
		return all[0], nil
	case len(all) == 0 && !root.leavesOpen("status"):
		return []byte(`{"type":"object"}`), nil // all is pruned
	}
	return nil, nil
}

func parseStatus(text []byte) (*object.Schema, error) {
	if len(text) == 0 {
		return nil, nil
	}
	return object.ParseSchema(text)
}
