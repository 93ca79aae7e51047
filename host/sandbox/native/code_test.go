package native

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// withUnloaded runs a test in fake time with unloaded code. Its reload waits until
// open is closed.
func withUnloaded(t *testing.T, test func(t *testing.T, c *Code, open chan struct{})) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "cache")
	synctest.Test(t, func(t *testing.T) {
		s := open(t, Config{Dir: dir})
		m, _, err := s.Compile(t.Context(), jobOf("key", constant(7), "{}"))
		if err != nil {
			t.Fatal(err)
		}
		gate := make(chan struct{})
		c := NewCode(m, func(unloaded Module) (Module, error) {
			<-gate
			return s.Reload(context.Background(), unloaded)
		})
		if !c.Unload(t.Context(), time.Now()) || c.Unload(t.Context(), time.Now()) {
			t.Fatal("the code is not unloaded once")
		}
		test(t, c, gate)
		if c.AddOwner() { // the test has not closed it
			c.Close(t.Context())
			c.Close(t.Context())
		}
	})
}

func TestUsersWaitForOneReload(t *testing.T) {
	withUnloaded(t, func(t *testing.T, c *Code, open chan struct{}) {
		var users sync.WaitGroup
		for range 8 {
			users.Go(func() {
				m, err := c.Acquire(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				wantRun(t, m, 7)
				c.Release()
			})
		}
		synctest.Wait()
		close(open)
		users.Wait()
		if loaded, reloads := c.Stats(); !loaded || reloads != 1 {
			t.Errorf("loaded = %t after %d reloads", loaded, reloads)
		}
	})
}

func TestCodeInUseIsNotUnloaded(t *testing.T) {
	withUnloaded(t, func(t *testing.T, c *Code, open chan struct{}) {
		close(open)
		if _, err := c.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		if c.Unload(t.Context(), time.Now().Add(time.Hour)) {
			t.Error("unloaded although it is in use")
		}
		time.Sleep(time.Minute) // fake time
		c.Release()
		if c.Unload(t.Context(), time.Now()) {
			t.Error("unloaded although it was in use since")
		}
		if !c.Unload(t.Context(), time.Now().Add(1)) {
			t.Error("not unloaded")
		}
	})
}

func TestContextEndsTheWaitForCode(t *testing.T) {
	withUnloaded(t, func(t *testing.T, c *Code, open chan struct{}) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := c.Acquire(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "wait for its code") {
			t.Errorf("error = %v", err)
		}
		close(open)
	})
}

func TestCloseWaitsForAReload(t *testing.T) {
	withUnloaded(t, func(t *testing.T, c *Code, open chan struct{}) {
		if !c.AddOwner() {
			t.Fatal("the code has no owner")
		}
		c.Close(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.Acquire(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("error = %v", err)
		}
		closed := make(chan struct{})
		go func() {
			c.Close(t.Context())
			close(closed)
		}()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("closed while it was being reloaded")
		default:
		}
		close(open)
		<-closed
		if loaded, _ := c.Stats(); loaded || c.AddOwner() {
			t.Error("the code is not freed")
		}
	})
}

// TestFailedReloadIsTriedAgain by the next user, and returned to those who waited
// for it.
func TestFailedReloadIsTriedAgain(t *testing.T) {
	s, _ := inDir(t)
	reloads := 0
	c := NewCode(compile(t, s, "key", 7), func(unloaded Module) (Module, error) {
		if reloads++; reloads == 1 {
			return Module{}, errors.New("not now")
		}
		return s.Reload(t.Context(), unloaded)
	})
	c.Unload(t.Context(), time.Now())
	if _, err := c.Acquire(t.Context()); err == nil || !strings.Contains(err.Error(), "not now") {
		t.Errorf("error = %v", err)
	}
	m, err := c.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantRun(t, m, 7)
	c.Release()
}

func TestCodeInMemoryIsNotUnloaded(t *testing.T) {
	c := NewCode(compile(t, open(t, Config{}), "key", 7), nil)
	if c.Unload(t.Context(), time.Now()) {
		t.Error("unloaded, and nothing could reload it")
	}
}
