package openapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/host/object"
)

const (
	// maxDocument bounds a document, in bytes. That of the core API has 2 MB.
	maxDocument = 32 << 20
	// requestTimeout is that of one request. The server may have to build the document.
	requestTimeout = 10 * time.Second
	// A schema is published some time after its CRD was changed. A field that it does
	// not have is looked for again until settleFor has passed.
	settleFor   = 5 * time.Second
	settlePause = time.Second
	// An API that has not replied for slowAfter is not asked again before askAgain.
	slowAfter = time.Second
	askAgain  = time.Minute
)

// Schemas are those of one API server. Its methods may be called concurrently.
type Schemas struct {
	client rest.Interface
	busy   chan struct{} // capacity 1; held while there is a document

	// failed is used by who holds busy. It has the API versions whose documents could
	// not be had, for as long as others would have waited for it.
	failed map[string]failure

	mu       sync.Mutex
	statuses map[abi.Kind]statusSchema
}

// failure is why a document could not be had.
type failure struct {
	err   error
	until time.Time // it is not asked for again
}

// New returns the schemas of an API server. It sends no request.
func New(client rest.Interface) *Schemas {
	return &Schemas{client: client, busy: make(chan struct{}, 1), failed: map[string]failure{}, statuses: map[abi.Kind]statusSchema{}}
}

// Check returns an [*UnknownFieldError] for the first path at which no object of the
// kind can have a value. Any other error means that the schema cannot be had, and that
// nothing is known about the paths.
func (s *Schemas) Check(ctx context.Context, kind abi.Kind, paths ...fieldpath.Path) error {
	for began := time.Now(); ; {
		err := s.check(ctx, kind, paths)
		if unknown := (*UnknownFieldError)(nil); !errors.As(err, &unknown) || time.Since(began) >= settleFor {
			return err
		}
		select {
		case <-time.After(settlePause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (s *Schemas) check(ctx context.Context, kind abi.Kind, paths []fieldpath.Path) error {
	if !s.acquire(ctx, false) {
		return context.Cause(ctx)
	}
	defer func() { <-s.busy }()
	text, err := s.document(ctx, kind.APIVersion)
	if err != nil {
		return fmt.Errorf("read the schema of %s: %w", kind, err)
	}
	return check(text, kind, paths)
}

// document returns the document of an API version, unless it was too late just before.
func (s *Schemas) document(ctx context.Context, apiVersion string) ([]byte, error) {
	began := time.Now()
	if f := s.failed[apiVersion]; began.Before(f.until) {
		return nil, f.err
	}
	text, err := s.fetch(ctx, apiVersion)
	delete(s.failed, apiVersion)
	if err != nil && ctx.Err() == nil && time.Since(began) >= slowAfter {
		s.failed[apiVersion] = failure{err, time.Now().Add(askAgain)}
	}
	return text, err
}

// fetch requests the document of an API version.
func (s *Schemas) fetch(ctx context.Context, apiVersion string) ([]byte, error) {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	body, err := s.client.Get().AbsPath(append([]string{"/openapi/v3"}, object.APIPath(gv)...)...).Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, maxDocument+1))
	if err == nil && len(text) > maxDocument {
		err = fmt.Errorf("the document has more than %d bytes", maxDocument)
	}
	return text, err
}

// check checks paths against a document.
func check(text []byte, kind abi.Kind, paths []fieldpath.Path) error {
	d, roots, err := readKind(text, kind)
	if err != nil {
		return err
	}
	for _, path := range paths {
		problem, err := d.follow(roots, path)
		if err != nil {
			return fmt.Errorf("read the schema of %s for the field %s: %w", kind, path, err)
		}
		if problem != "" {
			return &UnknownFieldError{Kind: kind, Path: path, Problem: problem}
		}
	}
	return nil
}

// readKind reads a document. roots are the schemas of a kind.
func readKind(text []byte, kind abi.Kind) (d *document, roots [][]byte, err error) {
	if d, err = readDocument(text); err == nil {
		roots, err = d.schemasOf(kind)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read the schema of %s: %w", kind, err)
	}
	return d, roots, nil
}

// UnknownFieldError is returned for a path at which no object of a kind can have a
// value.
type UnknownFieldError struct {
	Kind    abi.Kind
	Path    fieldpath.Path
	Problem string // names the first step that does not exist
}

func (e *UnknownFieldError) Error() string {
	return fmt.Sprintf("field %q: in the schema of %s %s", e.Path, e.Kind, e.Problem)
}
