package dispatch

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/access"
	"github.com/thole-dev/thole/host/object"
)

// testAccess is an account with rights such as "get Gadget", "get Gadget ns" and
// "get Gadget ns/g". Answers are remembered until forget.
type testAccess struct {
	mu         sync.Mutex
	rights     []string
	err        error       // of asking
	silent     func() bool // whether no answer comes
	meanwhile  func()      // is called while one comes
	asked      []string    // in order
	remembered map[string]bool
}

func newAccess(rights ...string) *testAccess {
	return &testAccess{rights: rights, remembered: map[string]bool{}}
}

func asked(verb string, kind abi.Kind, key object.Key) string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", verb, kind.Kind, strings.TrimSuffix(key.Namespace+"/"+key.Name, "/")))
}

func (a *testAccess) Known(verb string, kind abi.Kind, key object.Key) (allowed, known bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	allowed, known = a.remembered[asked(verb, kind, key)]
	return allowed, known
}

func (a *testAccess) May(ctx context.Context, verb string, kind abi.Kind, key object.Key) error {
	allowed, known := a.Known(verb, kind, key)
	if !known {
		var err error
		if allowed, err = a.ask(ctx, verb, kind, key); err != nil {
			return err
		}
	}
	if !allowed {
		return fmt.Errorf("%w for %s", &access.DeniedError{}, asked(verb, kind, key))
	}
	return nil
}

func (a *testAccess) ask(ctx context.Context, verb string, kind abi.Kind, key object.Key) (allowed bool, err error) {
	question := asked(verb, kind, key)
	a.mu.Lock()
	a.asked = append(a.asked, question)
	silent, meanwhile := a.silent, a.meanwhile
	a.mu.Unlock()
	if meanwhile != nil {
		meanwhile()
	}
	if silent != nil && silent() {
		<-ctx.Done()
		return false, context.Cause(ctx)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err != nil {
		return false, a.err
	}
	for _, wider := range []object.Key{{}, {Namespace: key.Namespace}, key} {
		allowed = allowed || slices.Contains(a.rights, asked(verb, kind, wider))
	}
	a.remembered[question] = allowed
	return allowed, nil
}

// set replaces the rights, and forgets the answers.
func (a *testAccess) set(rights ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rights = rights
	clear(a.remembered)
}

// expectAsked checks what was asked since it was called last.
func (a *testAccess) expectAsked(t *testing.T, want ...string) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slices.Equal(a.asked, want) {
		t.Errorf("asked %q, want %q", a.asked, want)
	}
	a.asked = nil
}

// as makes the plugin run as an account.
func (f *fixture) as(rights ...string) *testAccess {
	a := newAccess(rights...)
	f.c.Revision().Access = a
	return a
}
