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

// slept runs a test in fake time with code that sleeps. What brings it back
// waits for a channel first.
func slept(t *testing.T, test func(t *testing.T, c *Code, open chan struct{})) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "cache")
	synctest.Test(t, func(t *testing.T) {
		s := open(t, Config{Dir: dir})
		m, err := s.Compile(t.Context(), "key", constant(7), nil)
		if err != nil {
			t.Fatal(err)
		}
		gate := make(chan struct{})
		c := NewCode(m, func(asleep Module) (Module, error) {
			<-gate
			return s.Reopen(context.Background(), asleep)
		})
		if !c.Sleep(t.Context(), time.Now()) || c.Sleep(t.Context(), time.Now()) {
			t.Fatal("it does not sleep, or twice")
		}
		test(t, c, gate)
		if c.Share() { // the test has not closed it
			c.Close(t.Context())
			c.Close(t.Context())
		}
	})
}

func TestUsersWaitForOneWake(t *testing.T) {
	slept(t, func(t *testing.T, c *Code, open chan struct{}) {
		var users sync.WaitGroup
		for range 8 {
			users.Go(func() {
				m, err := c.Use(t.Context())
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
		if compiled, wakes := c.Stats(); !compiled || wakes != 1 {
			t.Errorf("it is there: %t, after %d wakes", compiled, wakes)
		}
	})
}

func TestCodeInUseDoesNotSleep(t *testing.T) {
	slept(t, func(t *testing.T, c *Code, open chan struct{}) {
		close(open)
		if _, err := c.Use(t.Context()); err != nil {
			t.Fatal(err)
		}
		if c.Sleep(t.Context(), time.Now().Add(time.Hour)) {
			t.Error("it sleeps although it is in use")
		}
		time.Sleep(time.Minute) // fake time
		c.Release()
		if c.Sleep(t.Context(), time.Now()) {
			t.Error("it sleeps although it was in use since")
		}
		if !c.Sleep(t.Context(), time.Now().Add(1)) {
			t.Error("it does not sleep")
		}
	})
}

func TestWaitForCodeEnds(t *testing.T) {
	slept(t, func(t *testing.T, c *Code, open chan struct{}) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := c.Use(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "wait for its code") {
			t.Errorf("error = %v", err)
		}
		close(open)
	})
}

func TestCloseWaitsForAWake(t *testing.T) {
	slept(t, func(t *testing.T, c *Code, open chan struct{}) {
		if !c.Share() {
			t.Fatal("it has no owner")
		}
		c.Close(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.Use(ctx); !errors.Is(err, context.Canceled) {
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
			t.Error("closed while it was being brought back")
		default:
		}
		close(open)
		<-closed
		if compiled, _ := c.Stats(); compiled || c.Share() {
			t.Error("the code is still there")
		}
	})
}

// TestFailedWakeIsTriedAgain, and told to those who waited for it.
func TestFailedWakeIsTriedAgain(t *testing.T) {
	s, _ := inDir(t)
	wakes := 0
	c := NewCode(compile(t, s, "key", 7), func(asleep Module) (Module, error) {
		if wakes++; wakes == 1 {
			return Module{}, errors.New("not now")
		}
		return s.Reopen(t.Context(), asleep)
	})
	c.Sleep(t.Context(), time.Now())
	if _, err := c.Use(t.Context()); err == nil || !strings.Contains(err.Error(), "not now") {
		t.Errorf("error = %v", err)
	}
	m, err := c.Use(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantRun(t, m, 7)
	c.Release()
}

func TestCodeInMemoryDoesNotSleep(t *testing.T) {
	c := NewCode(compile(t, open(t, Config{}), "key", 7), nil)
	if c.Sleep(t.Context(), time.Now()) {
		t.Error("nothing could bring it back")
	}
}
