package catalog

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// withKept is withOthers where modules are kept; missing, by digest, has why one is not (an error).
func withKept(t *testing.T, steps func(w *world, o *others, update func(...Module), c *testCatalog, missing *sync.Map)) {
	t.Helper()
	withOthers(t, func(w *world, o *others, update func(...Module), c *testCatalog) {
		missing := &sync.Map{}
		o.kept = func(digest string) ([]byte, error) {
			w.count("kept p " + digest)
			if err, is := missing.Load(digest); is {
				return nil, err.(error)
			}
			return []byte(digest), nil
		}
		steps(w, o, update, c, missing)
	})
}

func expectGood(t *testing.T, c *testCatalog, want string) {
	t.Helper()
	if s, _ := c.Status("p"); s.Good != want {
		t.Errorf("the last good module is %q, want %q", s.Good, want)
	}
}

func TestTheLastGoodModuleHasPassedItsProbation(t *testing.T) {
	withOthers(t, func(_ *world, _ *others, update func(...Module), c *testCatalog) {
		update(module("p", "broken"))
		expectGood(t, c, "")
		update(module("p", "A/1"))
		expectGood(t, c, "A/1")
		update(module("p", "A/2"))
		expectGood(t, c, "A/1")
		failProbation(c, "p")
		expectGood(t, c, "A/1")
		update(module("p", "A/3"))
		expectGood(t, c, "A/1")
		time.Sleep(time.Hour) // fake time
		synctest.Wait()
		expectGood(t, c, "A/3")
	})
}

// TestTheLastGoodModuleRunsIfTheNewestCannot: a replica that starts runs it, whatever is wrong with
// what the directory holds, and goes on as if it had run it before.
func TestTheLastGoodModuleRunsIfTheNewestCannot(t *testing.T) {
	const degraded = "p degraded A/1 "
	for name, c := range map[string]struct {
		file   Module
		status string
	}{
		"rolled back": {module("p", "A/2"), degraded + "rolled back to revision 1: another replica has rolled it back; it is tried again when the file changes, or on SIGHUP"},
		"broken":      {module("p", "broken"), degraded + "no module"},
		"unreadable":  {Module{Name: "p", Err: errors.New("permission denied")}, degraded + "permission denied"},
		"waiting":     {module("p", "B/2"), degraded + "kind B is not served"},
	} {
		t.Run(name, func(t *testing.T) {
			withKept(t, func(w *world, o *others, update func(...Module), catalog *testCatalog, _ *sync.Map) {
				o.record(Record{Running: "A/1", Rejected: []string{"A/2"}, Good: "A/1"})
				update(c.file)
				if name == "waiting" {
					expectStatus(t, catalog, "p waiting  kind B is not served")
					w.expect(t)
					time.Sleep(restoreAfter + time.Second) // fake time
					synctest.Wait()
				}
				w.expect(t, "start p A/1")
				expectStatus(t, catalog, c.status)
				expectGood(t, catalog, "A/1")
				update(module("p", "A/3"))
				if name == "waiting" {
					w.expect(t, "close p B/2", "start p A/3")
				} else {
					w.expect(t, "start p A/3")
				}
				expectGood(t, catalog, "A/1")
				failProbation(catalog, "p")
				w.expect(t, "record A/3", "start p A/1", "close p A/3")
			})
		})
	}
}

// TestAModuleThatNothingRanBeforeHasToProveItself: the last good one stays that until then, although all
// replicas were replaced within the probation of the next one.
func TestAModuleThatNothingRanBeforeHasToProveItself(t *testing.T) {
	withKept(t, func(w *world, o *others, update func(...Module), c *testCatalog, _ *sync.Map) {
		o.record(Record{Running: "A/2", Good: "A/1"})
		update(module("p", "A/2"))
		w.expect(t, "start p A/2")
		expectGood(t, c, "")
		changed := module("p", "A/2")
		changed.Policy = policy("changed")
		update(changed)
		expectGood(t, c, "")
		time.Sleep(testProbation - time.Second) // fake time
		synctest.Wait()
		expectGood(t, c, "")
		time.Sleep(2 * time.Second) // fake time
		synctest.Wait()
		expectGood(t, c, "A/2")
	})
	withKept(t, func(_ *world, o *others, update func(...Module), c *testCatalog, _ *sync.Map) {
		o.record(Record{Good: "A/1"})
		update(module("p", "A/2"))
		update(module("p", "A/3"))
		expectGood(t, c, "")
		failProbation(c, "p")
		expectGood(t, c, "")
		time.Sleep(2 * testProbation) // fake time
		synctest.Wait()
		expectGood(t, c, "A/2")
	})
}

// TestTheLastGoodModuleIsNoWayAround: nothing runs that the policy, another plugin or the other
// replicas exclude, and nothing that the newest module would do as well.
func TestTheLastGoodModuleIsNoWayAround(t *testing.T) {
	for name, c := range map[string]struct {
		recorded Record
		file     Module
	}{
		"it is not known":         {Record{Rejected: []string{"A/2"}}, module("p", "A/2")},
		"it was rolled back":      {Record{Rejected: []string{"A/1", "A/2"}, Good: "A/1"}, module("p", "A/2")},
		"the policy pins another": {Record{Rejected: []string{"A/2"}, Good: "A/1"}, pinned("A/2", "A/2")},
		"the file is not pinned":  {Record{Good: "A/1"}, pinned("A/2", "A/3")},
		"the policy is unknown":   {Record{Good: "A/1"}, Module{Name: "p", PolicyUnknown: true, Err: errors.New("no policy")}},
		"the policy denies":       {Record{Good: "A/1"}, denied("A/2")},
		"it is the newest":        {Record{Good: "B/1"}, module("p", "B/1")},
	} {
		t.Run(name, func(t *testing.T) {
			withKept(t, func(w *world, o *others, update func(...Module), catalog *testCatalog, _ *sync.Map) {
				o.record(c.recorded)
				update(c.file)
				time.Sleep(time.Minute) // fake time
				synctest.Wait()
				if w.counters["kept p A/1"]+w.counters["kept p B/1"] > 0 {
					t.Error("it was asked for")
				}
				if s, _ := catalog.Status("p"); s.Digest == "A/1" {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

func pinned(digest, pins string) Module {
	m := module("p", digest)
	m.Policy = policy("pin " + pins)
	return m
}

func denied(digest string) Module {
	m := module("p", digest)
	m.Policy = policy("deny all")
	return m
}

func TestALastGoodModuleThatIsNotKeptIsReported(t *testing.T) {
	withKept(t, func(w *world, o *others, update func(...Module), c *testCatalog, missing *sync.Map) {
		missing.Store("A/1", &WaitError{Reason: "the API server is away"})
		o.record(Record{Rejected: []string{"A/2"}, Good: "A/1"})
		update(module("p", "A/2"))
		const refused = "another replica has rolled it back; it is tried when the file changes, or on SIGHUP of the replica that leads; the last good module, sha256:A/1, does not run either: "
		expectStatus(t, c, "p failed  "+refused+"the API server is away")
		missing.Store("A/1", errors.New("it is not there"))
		time.Sleep(2 * time.Second) // fake time
		synctest.Wait()
		expectStatus(t, c, "p failed  "+refused+"it is not there")
		asked := w.counters["kept p A/1"]
		time.Sleep(time.Minute) // fake time
		synctest.Wait()
		if w.counters["kept p A/1"] != asked {
			t.Error("it is asked for again and again")
		}
		missing.Delete("A/1")
		c.RetryRefused()
		synctest.Wait()
		if s, _ := c.Status("p"); s.Digest != "A/1" || !strings.HasPrefix(s.LastError, "rolled back to revision") {
			t.Errorf("%+v", s)
		}
	})
}
