package sandbox

import (
	"encoding/binary"
	"math"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi/tck"
)

func TestEverySystemCallCanBeLinked(t *testing.T) {
	names := map[string]bool{}
	for _, s := range wasiSignatures {
		names[s.name] = true
	}
	if len(names) != 46 {
		t.Errorf("%d functions, the snapshot has 46", len(names))
	}
	for name := range systemCalls {
		if !names[name] {
			t.Errorf("%s has no signature", name)
		}
	}
}

// TestUnservedSystemCalls calls each function that is not served with a known
// and an unknown descriptor.
func TestUnservedSystemCalls(t *testing.T) {
	for _, s := range wasiSignatures {
		if _, ok := systemCalls[s.name]; ok {
			continue
		}
		takesDescriptor := s.name[:3] == "fd_" || s.name[:5] == "path_" || s.name[:5] == "sock_"
		for descriptor, want := range map[uint64]errno{1: notServed, 3: badFile} {
			if !takesDescriptor {
				want = notServed
			}
			if got := unserved(s.name)(nil, nil, []uint64{descriptor, 0, descriptor, 0, 0, 0, 0, 0, 0}); got != want {
				t.Errorf("%s(%d) = %d, want %d", s.name, descriptor, got, want)
			}
		}
	}
}

func testCall() *call {
	limits := Limits{StdioBytes: 8}.WithDefaults()
	return newCall(&limits, time.Unix(0, 1000).UTC(), [32]byte{1})
}

func TestClockMovesByReadingsAndSleep(t *testing.T) {
	c := testCall()
	if a, b := c.clock.read(), c.clock.read(); a != 2000 || b != 3000 {
		t.Errorf("readings = %d, %d, want one microsecond each", a, b)
	}
	events := c.events([]subscription{{userdata: 1, deadline: 9000}, {userdata: 2, deadline: 5000}})
	if len(events) != eventSize || events[0] != 2 || c.clock.now != 5000 {
		t.Errorf("events = %v at %d, want the earlier one at 5000", events, c.clock.now)
	}
	c.events([]subscription{{deadline: 1}})
	if c.clock.now != 5000 {
		t.Errorf("the clock went back to %d", c.clock.now)
	}
}

func TestDescriptorsInPollFailAtOnce(t *testing.T) {
	c := testCall()
	events := c.events([]subscription{{userdata: 1, deadline: 9000}, {userdata: 2, kind: 1}})
	if len(events) != eventSize || events[0] != 2 || events[8] != byte(badFile) || c.clock.now != 1000 {
		t.Errorf("events = %v at %d", events, c.clock.now)
	}
}

func TestSubscription(t *testing.T) {
	c := testCall()
	entry := func(timeout uint64, flags uint16) []byte {
		p := make([]byte, subscriptionSize)
		binary.LittleEndian.PutUint64(p, 42)
		binary.LittleEndian.PutUint64(p[24:], timeout)
		binary.LittleEndian.PutUint16(p[40:], flags)
		return p
	}
	for _, x := range []struct {
		timeout uint64
		flags   uint16
		want    int64
	}{
		{500, 0, 1500},
		{500, absoluteTime, 500},
		{math.MaxUint64, 0, math.MaxInt64},
		{math.MaxUint64, absoluteTime, math.MaxInt64},
	} {
		if s := c.subscription(entry(x.timeout, x.flags)); s.deadline != x.want || s.userdata != 42 {
			t.Errorf("%d flags %d: %+v, want deadline %d", x.timeout, x.flags, s, x.want)
		}
	}
}

func TestTailKeepsTheEnd(t *testing.T) {
	w := tail{limit: 4}
	for _, p := range []string{"a", "bcdef", "", "ghi", "jklmnopq", "r"} {
		w.write([]byte(p))
	}
	if got := string(w.bytes()); got != "opqr" {
		t.Errorf("kept %q, want opqr", got)
	}
	if len(w.data) > 2*w.limit {
		t.Errorf("holds %d bytes for a limit of %d", len(w.data), w.limit)
	}
	if (&tail{limit: 4}).bytes() != nil {
		t.Error("nothing written is not nil")
	}
}

func TestRandomStream(t *testing.T) {
	a, b, other := testCall(), testCall(), testCall()
	other.seed = [32]byte{2}
	var x, y, z [40]byte
	a.randomBytes(x[:])
	b.randomBytes(y[:13])
	b.randomBytes(y[13:])
	other.randomBytes(z[:])
	if x != y || x == z {
		t.Errorf("%x, %x and %x: want the first two equal, the third another", x, y, z)
	}
}

// TestWildPointersInSystemCalls hands addresses beyond the memory to the
// system interface: an error number, never a failed host.
func TestWildPointersInSystemCalls(t *testing.T) {
	for _, s := range wasiSignatures {
		if s.name == "proc_exit" {
			continue
		}
		for _, descriptor := range []int32{1, -1} {
			t.Run(s.name, func(t *testing.T) {
				g := load(t, newSandbox(t, Config{}), Plugin{Name: "wild", Wasm: wild(s.name, s.params, descriptor)})
				defer closeGuest(t, g)
				if _, err := g.Reconcile(t.Context(), Call{}); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func wild(name, shape string, descriptor int32) []byte {
	h := newHand("wild")
	var types []tck.Type
	var body [][]byte
	for i := range shape {
		switch {
		case shape[i] == 'I':
			types, body = append(types, tck.I64), append(body, tck.I64Const(-1))
		case i == 0:
			types, body = append(types, tck.I32), append(body, tck.I32Const(descriptor))
		default:
			types, body = append(types, tck.I32), append(body, tck.I32Const(-8))
		}
	}
	f := h.Import(wasiModule, name, types, one)
	return h.wasm(nil, append(body, tck.Call(f), tck.Drop, h.ok())...)
}
