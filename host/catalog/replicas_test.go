package catalog

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// others is the [Replicas] of a test: what the leader has recorded, of every plugin.
type others struct {
	mu       sync.Mutex
	recorded Record
	err      error
	w        *world                              // notes what is recorded; nil: nothing does
	kept     func(digest string) ([]byte, error) // nil: nothing is kept
}

func (o *others) Recorded(*Module) (Record, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return Record{o.recorded.Running, slices.Clone(o.recorded.Rejected), o.recorded.Good}, o.err
}

func (o *others) Reject(_ *Module, digest string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.recorded.Rejected = append(o.recorded.Rejected, digest)
	if o.w != nil {
		o.w.note("record %s", digest)
	}
}

func (o *others) Loaded(m *Module) {
	if o.w != nil {
		o.w.count("loaded " + m.Name + " " + m.Digest)
	}
}

func (o *others) Kept(_ context.Context, _, digest string) ([]byte, error) {
	if o.kept == nil {
		return nil, errors.New("nothing is kept")
	}
	return o.kept(digest)
}

// set changes what is recorded, and wakes the plugin p.
func (o *others) set(c *testCatalog, recorded Record, err error) {
	o.record(recorded)
	o.mu.Lock()
	o.err = err
	o.mu.Unlock()
	c.Reconsider("p")
	synctest.Wait()
}

func (o *others) record(r Record) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.recorded = r
}

func rejects(digests ...string) Record { return Record{Rejected: digests} }

func withOthers(t *testing.T, steps func(w *world, o *others, update func(...Module), c *testCatalog)) {
	t.Helper()
	w := newWorld("A")
	o := &others{w: w}
	scenario(t, w, func(update func(...Module), c *testCatalog) {
		c.Replicas = o
		steps(w, o, update, c)
	})
}

func TestAStandbyRollsBackWhatTheLeaderHasRolledBack(t *testing.T) {
	withOthers(t, func(w *world, o *others, update func(...Module), c *testCatalog) {
		update(module("p", "A/1"))
		update(module("p", "A/2"))
		o.set(c, rejects("A/2"), nil)
		w.expect(t, "start p A/1", "start p A/2", "start p A/1", "close p A/2")
		expectStatus(t, c, "p degraded A/1 rolled back to revision 1: another replica has rolled it back; it is tried again when the file changes, or on SIGHUP")
		c.RetryRefused() // of a standby
		synctest.Wait()
		w.expect(t)
		o.set(c, Record{Running: "A/2"}, nil) // the leader has tried it again
		w.expect(t, "start p A/2")
	})
}

func TestAReplicaThatStartsDoesNotRunWhatWasRolledBack(t *testing.T) {
	withOthers(t, func(w *world, o *others, update func(...Module), c *testCatalog) {
		o.err = errors.New("the Leases are being read")
		update(module("p", "A/2"))
		expectStatus(t, c, "p waiting  the Leases are being read")
		o.set(c, rejects("A/1", "A/2"), nil)
		const refused = "p failed  another replica has rolled it back; it is tried when the file changes, or on SIGHUP of the replica that leads"
		expectStatus(t, c, refused)
		o.set(c, Record{}, nil) // somebody has deleted the Lease
		expectStatus(t, c, refused)
		w.expect(t)
		update(module("p", "A/3"))
		w.expect(t, "start p A/3")
		update(module("p", "A/2"))
		w.expect(t, "start p A/2") // by what is recorded now
	})
}

// The probation of the standby has ended before that of the leader.
func TestAStandbyWithoutFallbackStopsWhatTheLeaderHasRolledBack(t *testing.T) {
	withOthers(t, func(w *world, o *others, update func(...Module), c *testCatalog) {
		update(module("p", "A/2"))
		o.set(c, rejects("A/2"), nil)
		w.expect(t, "start p A/2", "stop p", "close p A/2")
		expectStatus(t, c, "p failed  another replica has rolled it back; it is tried when the file changes, or on SIGHUP of the replica that leads")
	})
}

// The file of this replica changed before that of the leader.
func TestWhatRunsInPlaceOfAnUnusableFileIsRolledBackToo(t *testing.T) {
	for _, file := range []Module{module("p", "broken"), {Name: "p", Err: errors.New("permission denied")}} {
		withOthers(t, func(w *world, o *others, update func(...Module), c *testCatalog) {
			update(module("p", "A/1"))
			update(module("p", "A/2"))
			update(file)
			w.expect(t, "start p A/1", "start p A/2")
			o.set(c, rejects("A/2"), nil)
			w.expect(t, "start p A/1", "close p A/2")
		})
	}
}

func TestARejectionThatCouldNotBeRecordedIsKept(t *testing.T) {
	withOthers(t, func(w *world, o *others, update func(...Module), c *testCatalog) {
		update(module("p", "A/1"))
		update(module("p", "A/2"))
		failProbation(c, "p")
		w.expect(t, "start p A/1", "start p A/2", "record A/2", "start p A/1", "close p A/2")
		o.set(c, Record{}, nil)
		w.expect(t)
		expectStatus(t, c, "p degraded A/1 "+rolledBack)
	})
}

// restart is what the host does when the replica ceases to lead.
func restart(c *testCatalog) {
	c.Restart("p", "another replica may lead it")
	synctest.Wait()
}

// A plugin that is started again runs while the next module is loaded and started.
func TestARestartedPluginRunsBeforeTheNextModule(t *testing.T) {
	withOthers(t, func(w *world, _ *others, update func(...Module), c *testCatalog) {
		update(module("p", "A/1"))
		w.hold("A/2")
		update(module("p", "A/2"))
		restart(c)
		w.expect(t, "start p A/1", "stop p", "start p A/1")
		w.release("A/2")
		synctest.Wait()
		w.expect(t, "start p A/2")
	})
}

func TestARestartedPluginKeepsItsFallback(t *testing.T) {
	withOthers(t, func(w *world, o *others, update func(...Module), c *testCatalog) {
		update(module("p", "A/1"))
		update(module("p", "A/2"))
		restart(c)
		w.expect(t, "start p A/1", "start p A/2", "stop p", "start p A/2")
		expectStatus(t, c, "p running A/2")
		o.set(c, rejects("A/2"), nil)
		w.expect(t, "start p A/1", "close p A/2")
		restart(c)
		w.expect(t, "stop p", "start p A/1")
		expectStatus(t, c, "p degraded A/1 rolled back to revision 1: another replica has rolled it back; it is tried again when the file changes, or on SIGHUP")
	})
}

func TestARestartThatWaitsIsTriedAgain(t *testing.T) {
	withOthers(t, func(w *world, o *others, update func(...Module), c *testCatalog) {
		update(module("p", "A/1"))
		w.withdraw("A")
		restart(c)
		w.expect(t, "start p A/1", "stop p")
		expectStatus(t, c, "p waiting  kind A is not served")
		if n := len(c.Running()); n != 0 {
			t.Errorf("%d run", n)
		}
		restart(c)
		w.expect(t)
		w.serve("A")
		c.Reconsider("p")
		synctest.Wait()
		w.expect(t, "start p A/1")
		expectStatus(t, c, "p running A/1")
		// Other code may start in the meantime.
		w.withdraw("A")
		w.serve("B")
		restart(c)
		w.expect(t, "stop p")
		update(module("p", "B/1"))
		w.expect(t, "start p B/1")
	})
}

// rejections are who has found that B/2 does worse.
var rejections = map[string]func(o *others, c *testCatalog){
	"the leader":    func(_ *others, c *testCatalog) { failProbation(c, "p") },
	"a standby":     func(o *others, c *testCatalog) { o.set(c, rejects("B/2"), nil) },
	"both together": func(o *others, c *testCatalog) { o.record(rejects("B/2")); failProbation(c, "p") },
}

func TestAFallbackThatDisplacesAPluginStarts(t *testing.T) {
	for name, reject := range rejections {
		t.Run(name, func(t *testing.T) {
			withOthers(t, func(w *world, o *others, update func(...Module), c *testCatalog) {
				w.serve("B")
				update(module("p", "A/1"))
				update(module("p", "B/2"))
				update(module("p", "B/2"), module("q", "A/1"))
				reject(o, c)
				time.Sleep(3 * time.Second) // fake time
				synctest.Wait()
				w.expectRunning(t, "p A/1")
			})
		})
	}
}

// What is suspended is not stopped a second time.
func TestAPluginThatIsToBeStartedAgainEnds(t *testing.T) {
	for name, end := range map[string]func(o *others, update func(...Module), c *testCatalog){
		"removed":  func(_ *others, update func(...Module), _ *testCatalog) { update() },
		"rejected": func(o *others, _ func(...Module), c *testCatalog) { o.set(c, rejects("A/1"), nil) },
	} {
		t.Run(name, func(t *testing.T) {
			withOthers(t, func(w *world, o *others, update func(...Module), c *testCatalog) {
				update(module("p", "A/1"))
				w.withdraw("A")
				restart(c)
				w.expect(t, "start p A/1", "stop p")
				end(o, update, c)
				w.expect(t, "close p A/1")
			})
		})
	}
}

// The kind of the previous revision is not served any more, or the API server is unreachable.
func TestAFallbackThatCannotStartIsKept(t *testing.T) {
	for name, reject := range rejections {
		t.Run(name, func(t *testing.T) {
			withOthers(t, func(w *world, o *others, update func(...Module), c *testCatalog) {
				w.serve("B")
				update(module("p", "A/1"))
				update(module("p", "B/2"))
				o.w = nil
				w.withdraw("A")
				reject(o, c)
				time.Sleep(2 * testProbation) // fake time
				s := c.Statuses()[0]
				if s.State != Failed || s.Rejected != "B/2" || s.FailedStep != StepProbation || !strings.HasSuffix(s.LastError, "revision 1 cannot be started: kind A is not served") {
					t.Errorf("status: %+v", s)
				}
				w.serve("A")
				time.Sleep(2 * time.Second) // fake time
				synctest.Wait()
				w.expect(t, "start p A/1", "start p B/2", "stop p", "close p B/2", "start p A/1")
				if s = c.Statuses()[0]; s.Loads != 3 || s.Rollbacks != 1 || s.State != Degraded || s.Digest != "A/1" || s.Rejected != "B/2" {
					t.Errorf("status: %+v", s)
				}
			})
		})
	}
}

func TestAFallbackThatWaitsDoesNotKeepOtherCodeFromDisplacingAPlugin(t *testing.T) {
	withOthers(t, func(w *world, _ *others, update func(...Module), c *testCatalog) {
		w.serve("B")
		update(module("p", "A/1"))
		update(under(module("p", "B/2"), "deny /1"), module("r", "A/9"))
		failProbation(c, "p")
		update(under(module("p", "A/3"), "deny /1"), module("r", "A/9"))
		time.Sleep(5 * time.Second) // fake time
		synctest.Wait()
		if s := c.Statuses()[0]; s.State != Running || s.Digest != "A/3" {
			t.Errorf("status: %+v", s)
		}
	})
}

// What a replica has loaded it may have to return as the last good module.
func TestReplicasGetWhatWasLoaded(t *testing.T) {
	withOthers(t, func(w *world, _ *others, update func(...Module), _ *testCatalog) {
		update(module("p", "broken"))
		update(module("p", "A/1"))
		for digest, want := range map[string]int{"broken": 0, "A/1": 1} {
			if n := w.counters["loaded p "+digest]; n != want {
				t.Errorf("%s: %d times, want %d", digest, n, want)
			}
		}
	})
}
