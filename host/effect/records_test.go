package effect

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/object"
)

func TestForgetDropsTheRecordsOfOnePrimary(t *testing.T) {
	w, target := newFake(t, func(http.ResponseWriter, *http.Request) {})
	a := abi.Event{Type: "Normal", Reason: "A", Message: "m"}
	other := target
	other.Object = parse(t, `{"apiVersion":"test.thole.dev/v1","kind":"Widget","metadata":{"name":"o","uid":"u9"}}`)
	w.EmitEvent(target, &a)
	w.EmitEvent(other, &a)
	w.Forget(object.HashOf(string(target.Object.UID)))
	w.EmitEvent(target, nil) // makes no record
	if len(w.memory.byUID) != 1 {
		t.Errorf("%d primaries have records, want 1", len(w.memory.byUID))
	}
	w.EmitEvent(target, &a)
	w.EmitEvent(other, &a)
	if len(w.recorder.events) != 3 {
		t.Errorf("emitted %q", w.recorder.events)
	}
}

// Objects of some APIs have no uid. Two of them must not share records, which the runs of one object use
// without a lock.
func TestPrimariesWithoutUIDHaveRecordsOfTheirOwn(t *testing.T) {
	w, target := newFake(t, func(http.ResponseWriter, *http.Request) {})
	var all []*records
	for _, name := range []string{"a", "b", "a"} {
		target.Object = parse(t, `{"apiVersion":"test.thole.dev/v1","kind":"Widget","metadata":{"name":"`+name+`","namespace":"ns"}}`)
		all = append(all, w.memory.of(target, true))
	}
	if all[0] == all[1] || all[0] != all[2] {
		t.Error("records belong to another object")
	}
	w.Forget(target.Object.Identity())
	if len(w.memory.byUID) != 1 {
		t.Errorf("%d primaries have records, want 1", len(w.memory.byUID))
	}
}

func TestRecordsAreBoundedByTheLastRun(t *testing.T) {
	m := &records{}
	x, y := objectIDOf(pod.Kind, object.Key{Name: "x"}), objectIDOf(pod.Kind, object.Key{Name: "y"})
	m.setApplied(applyRecord{id: x})
	m.setAbsent(y)
	m.keep(map[objectID]bool{y: true})
	if len(m.applied) != 0 || !m.isAbsent(y) {
		t.Errorf("kept %+v", m)
	}
	m.setApplied(applyRecord{id: y})
	m.keep(map[objectID]bool{})
	if m.applied != nil || m.extra != nil {
		t.Errorf("kept %+v", m)
	}
}

// A primary that had many objects once must not take their memory as long as it exists.
func TestRecordsOfManyObjectsAreFreed(t *testing.T) {
	m, named := &records{}, map[objectID]bool{}
	for i := range 200 {
		applied, absent := objectID{1, byte(i)}, objectID{2, byte(i)}
		m.setApplied(applyRecord{id: applied})
		m.setAbsent(absent)
		if i < 3 {
			named[applied], named[absent] = true, true
		}
	}
	m.keep(named)
	if len(m.applied) != 3 || len(m.extra.absent) != 3 {
		t.Fatalf("kept %+v, %+v", m.applied, m.extra)
	}
	if cap(m.applied) >= 6 || cap(m.extra.absent) >= 6 {
		t.Errorf("room for %d and %d is kept", cap(m.applied), cap(m.extra.absent))
	}
}

// There is one of these for each primary, of which there may be very many.
func TestRecordsAreSmall(t *testing.T) {
	if size := unsafe.Sizeof(records{}); size > 48 {
		t.Errorf("records have %d bytes: keep what few primaries need in extraRecords", size)
	}
	if size := unsafe.Sizeof(applyRecord{}); size > 64 {
		t.Errorf("the record of an apply has %d bytes", size)
	}
}

// A status that the server has stored as it was wanted is found to need no patch
// without a record.
func TestOnlyAStatusThatTheServerChangedIsRecorded(t *testing.T) {
	for stored, recorded := range map[string]bool{`{"n":1}`: false, `{"n":1,"m":2}`: true, `{}`: true} {
		w, target := newFake(t, func(out http.ResponseWriter, r *http.Request) {
			respond(200, "application/json", strings.Replace(primary, `"spec":{}`, `"spec":{},"status":`+stored, 1))(out, r)
		})
		if _, failure := w.WriteStatus(t.Context(), target, Status{Patch: []byte(`{"n":1}`)}); failure != nil {
			t.Fatal(failure)
		}
		r := w.memory.of(target, false)
		if got := r != nil && r.extra != nil; got != recorded {
			t.Errorf("stored as %s: recorded is %v", stored, got)
		}
		w.EmitEvent(target, &abi.Event{Type: "Warning", Reason: "A", Message: "m"})
		if w.EmitEvent(target, nil); recorded != (w.memory.of(target, false).extra != nil) {
			t.Errorf("stored as %s: the Event is still recorded", stored)
		}
	}
}

// The API server of this test makes nothing of the patch, so that only its record
// shows that it was sent.
func TestRecordsOutliveANewPolicyButNotADryRun(t *testing.T) {
	for _, c := range []struct {
		dryRun [2]bool // before and after
		sent   int     // requests of the second run
	}{
		{[2]bool{false, false}, 0},
		{[2]bool{true, true}, 0},
		{[2]bool{true, false}, 1},
		{[2]bool{false, true}, 1},
	} {
		t.Run(fmt.Sprint("dry run ", c.dryRun), func(t *testing.T) {
			w, target := newFake(t, respond(200, "application/json", primary))
			run := func(dryRun bool, qps float32) int {
				before := w.Performer
				w.start(func(c *Config) { c.DryRun, c.QPS = dryRun, qps })
				w.Inherit(before)
				w.wire.take()
				if _, failure := w.PerformIntents(t.Context(), target, &abi.Result{Patch: []byte(`{"spec":{"n":1}}`)}); failure != nil {
					t.Fatal(failure)
				}
				return len(w.wire.take())
			}
			if n := run(c.dryRun[0], 1000); n != 1 {
				t.Fatalf("the first run sent %d requests", n)
			}
			if n := run(c.dryRun[1], 2000); n != c.sent {
				t.Errorf("the run under another policy sent %d requests, want %d", n, c.sent)
			}
		})
	}
}

// This test is for the race detector.
func TestPerformerIsSafeForConcurrentPrimaries(t *testing.T) {
	w, target := newFake(t, func(out http.ResponseWriter, r *http.Request) {
		respond(200, "application/json", primary)(out, r)
	})
	var workers sync.WaitGroup
	for i := range 8 {
		mine := Target{Controller: target.Controller, Object: parse(t, strings.Replace(primary, `"u1"`, fmt.Sprintf(`"u%d"`, i), 1))}
		workers.Go(func() {
			for n := range 20 {
				if _, failure := w.WriteStatus(t.Context(), mine, Status{Patch: fmt.Appendf(nil, `{"n":%d}`, n+1)}); failure != nil {
					t.Error(failure)
				}
				if _, failure := w.PerformIntents(t.Context(), mine, &abi.Result{Patch: fmt.Appendf(nil, `{"spec":{"n":%d}}`, n)}); failure != nil {
					t.Error(failure)
				}
				w.EmitEvent(mine, nil)
				if n%5 == 0 {
					w.Forget(object.HashOf(string(mine.Object.UID)))
				}
			}
		})
	}
	workers.Wait()
}

// jsonValue draws a JSON value as two texts: the second has the members of
// objects in another order, and white space.
func jsonValue(t *rapid.T, depth int) (a, b string) {
	choice := rapid.IntRange(0, 5).Draw(t, "kind")
	if depth == 0 {
		choice %= 4
	}
	switch choice {
	case 0:
		s := string(rawjson.AppendString(nil, rapid.String().Draw(t, "string")))
		return s, s + "\n"
	case 1:
		return "null", " null"
	case 2:
		return "true", "true "
	case 3:
		// In one notation each: 0 and -0 are one value with two digests.
		n := rapid.StringMatching(`0|-?(0\.[0-9]{0,2}[1-9]|[1-9][0-9]{0,20}(\.[0-9]{0,2}[1-9])?)`).Draw(t, "number")
		return n, n
	case 4:
		a, b = "[", " [ "
		for i := range rapid.IntRange(0, 3).Draw(t, "length") {
			x, y := jsonValue(t, depth-1)
			if i > 0 {
				a, b = a+",", b+" , "
			}
			a, b = a+x, b+y
		}
		return a + "]", b + "]"
	default:
		names := rapid.SliceOfDistinct(rapid.String(), func(s string) string { return s }).Draw(t, "names")
		return jsonObject(t, depth, names)
	}
}

func jsonObject(t *rapid.T, depth int, names []string) (a, b string) {
	var as, bs []string
	for _, n := range names {
		x, y := jsonValue(t, depth-1)
		name := string(rawjson.AppendString(nil, n))
		as, bs = append(as, name+":"+x), append(bs, name+" : "+y)
	}
	rand.Shuffle(len(bs), func(i, j int) { bs[i], bs[j] = bs[j], bs[i] })
	join := func(parts []string, comma string) (s string) {
		for i, p := range parts {
			if i > 0 {
				s += comma
			}
			s += p
		}
		return s
	}
	return "{" + join(as, ",") + "}", "{ " + join(bs, " , ") + "}"
}

func TestDigestsAreEqualExactlyForEqualValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := jsonValue(t, 3)
		c, _ := jsonValue(t, 3)
		da, err := sum([]byte(a))
		if err != nil {
			t.Fatalf("%s: %v", a, err)
		}
		db, err := sum([]byte(b))
		if err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		dc, err := sum([]byte(c))
		if err != nil {
			t.Fatalf("%s: %v", c, err)
		}
		if da != db {
			t.Fatalf("%s and %s differ", a, b)
		}
		if (da == dc) != rawjson.Equal([]byte(a), []byte(c)) {
			t.Fatalf("%s and %s", a, c)
		}
	})
}

func TestBodyDigestIgnoresStatusAndVersion(t *testing.T) {
	digest := func(text string) digest {
		d, err := sumBody([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	base := digest(`{"metadata":{"name":"x"},"spec":{"status":1,"metadata":{"generation":1}}}`)
	for text, same := range map[string]bool{
		`{"metadata":{"name":"x","resourceVersion":"1","generation":3,"managedFields":[{}]},"status":{"a":1},"spec":{"status":1,"metadata":{"generation":1}}}`: true,
		`{"metadata":{"name":"x"},"spec":{"status":2,"metadata":{"generation":1}}}`:                                                                            false,
		`{"metadata":{"name":"x"},"spec":{"status":1,"metadata":{"generation":2}}}`:                                                                            false,
		`{"metadata":{"name":"x","labels":{}},"spec":{"status":1,"metadata":{"generation":1}}}`:                                                                false,
	} {
		if (digest(text) == base) != same {
			t.Errorf("same is not %v: %s", same, text)
		}
	}
	if _, err := sum([]byte(`{"a":`)); err == nil {
		t.Error("half a text was accepted")
	}
}

// A place under the limit of writes that is forgotten is lost for the others, too.
func TestAReservedWriteIsNotForgotten(t *testing.T) {
	r := &records{}
	r.extras().reserved = time.Now()
	r.setAbsent(objectID{1})
	r.keep(nil)
	if r.read().reserved.IsZero() {
		t.Error("the place is forgotten")
	}
}
