package wasi

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/wazero/api"
)

func TestEverySystemCallCanBeLinked(t *testing.T) {
	names := map[string]bool{}
	for _, f := range Functions {
		names[f.Name] = true
	}
	if len(names) != 46 {
		t.Errorf("%d functions, the snapshot has 46", len(names))
	}
}

// served has the functions that do something.
var served = []string{
	"args_get", "args_sizes_get", "clock_res_get", "clock_time_get", "environ_get", "environ_sizes_get",
	"fd_close", "fd_fdstat_get", "fd_read", "fd_seek", "fd_tell", "fd_write", "poll_oneoff", "proc_exit", "random_get",
}

// TestUnservedSystemCallsDistinguishUnknownDescriptors calls each function that is not served with a known
// and an unknown descriptor.
func TestUnservedSystemCallsDistinguishUnknownDescriptors(t *testing.T) {
	for _, f := range Functions {
		if slices.Contains(served, f.Name) {
			continue
		}
		takesDescriptor := f.Name[:3] == "fd_" || f.Name[:5] == "path_" || f.Name[:5] == "sock_"
		for descriptor, want := range map[uint64]errno{1: notServed, 3: badFile} {
			if !takesDescriptor {
				want = notServed
			}
			args := []uint64{descriptor, 0, 0}
			if f.Name == "path_symlink" { // its descriptor is the third parameter
				args = []uint64{0, 0, descriptor}
			}
			if got := f.call(nil, nil, args); got != want {
				t.Errorf("%s(%d) = %d, want %d", f.Name, descriptor, got, want)
			}
		}
	}
}

func testProcess() *Process {
	p := NewProcess(time.Unix(0, 1000).UTC(), [32]byte{1}, 8)
	return &p
}

func TestClockAdvancesByReadingsAndSleep(t *testing.T) {
	p := testProcess()
	if a, b := p.clock.read(), p.clock.read(); a != 2000 || b != 3000 {
		t.Errorf("readings = %d, %d, want one microsecond each", a, b)
	}
	events := p.events([]subscription{{userdata: 1, deadline: 9000}, {userdata: 2, deadline: 5000}})
	if len(events) != eventSize || events[0] != 2 || p.clock.now != 5000 {
		t.Errorf("events = %v at %d, want the earlier one at 5000", events, p.clock.now)
	}
	p.events([]subscription{{deadline: 1}})
	if p.clock.now != 5000 {
		t.Errorf("the clock went back to %d", p.clock.now)
	}
}

func TestDescriptorsInPollFailAtOnce(t *testing.T) {
	p := testProcess()
	events := p.events([]subscription{{userdata: 1, deadline: 9000}, {userdata: 2, kind: 1}})
	if len(events) != eventSize || events[0] != 2 || events[8] != byte(badFile) || p.clock.now != 1000 {
		t.Errorf("events = %v at %d", events, p.clock.now)
	}
}

func TestSubscriptionDeadlineSaturates(t *testing.T) {
	p := testProcess()
	entry := func(timeout uint64, flags uint16) []byte {
		out := make([]byte, subscriptionSize)
		binary.LittleEndian.PutUint64(out, 42)
		binary.LittleEndian.PutUint64(out[24:], timeout)
		binary.LittleEndian.PutUint16(out[40:], flags)
		return out
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
		if s := p.subscription(entry(x.timeout, x.flags)); s.deadline != x.want || s.userdata != 42 {
			t.Errorf("%d flags %d: %+v, want deadline %d", x.timeout, x.flags, s, x.want)
		}
	}
}

func TestTailKeepsTheEnd(t *testing.T) {
	w := Tail{limit: 4}
	for _, text := range []string{"a", "bcdef", "", "ghi", "jklmnopq", "r"} {
		w.Add([]byte(text))
	}
	if got := string(w.Bytes()); got != "opqr" {
		t.Errorf("kept %q, want opqr", got)
	}
	if len(w.data) > 2*w.limit {
		t.Errorf("holds %d bytes for a limit of %d", len(w.data), w.limit)
	}
	if (&Tail{limit: 4}).Bytes() != nil {
		t.Error("nothing written is not nil")
	}
}

func TestRandomBytesDependOnTheSeedAlone(t *testing.T) {
	a, b, other := testProcess(), testProcess(), testProcess()
	other.seed = [32]byte{2}
	var x, y, z [40]byte
	a.readRandom(x[:])
	b.readRandom(y[:13])
	b.readRandom(y[13:])
	other.readRandom(z[:])
	if x != y || x == z {
		t.Errorf("%x, %x and %x: want the first two equal, the third another", x, y, z)
	}
}

// linear is a guest's memory, with what the interface uses of it.
type linear struct {
	api.Memory
	data []byte
}

func (m linear) Read(at, length uint32) ([]byte, bool) {
	if uint64(at)+uint64(length) > uint64(len(m.data)) {
		return nil, false
	}
	return m.data[at : at+length], true
}

func (m linear) Write(at uint32, p []byte) bool {
	to, ok := m.Read(at, uint32(len(p)))
	return ok && copy(to, p) == len(p)
}

func (m linear) ReadUint32Le(at uint32) (uint32, bool) {
	p, ok := m.Read(at, 4)
	if !ok {
		return 0, false
	}
	return binary.LittleEndian.Uint32(p), true
}

func (m linear) WriteUint32Le(at, value uint32) bool {
	return m.Write(at, binary.LittleEndian.AppendUint32(nil, value))
}

func (m linear) WriteUint64Le(at uint32, value uint64) bool {
	return m.Write(at, binary.LittleEndian.AppendUint64(nil, value))
}

// call calls a function as a guest with that memory does.
func call(t *testing.T, p *Process, m linear, name string, args ...uint64) errno {
	t.Helper()
	for _, f := range Functions {
		if f.Name != name {
			continue
		}
		if len(args) != len(f.Type().Params) {
			t.Fatalf("%s has the type %s", name, f.Type())
		}
		stack := append(args, 0)
		f.Call(p, m, stack)
		return errno(stack[0])
	}
	t.Fatalf("no function %s", name)
	return 0
}

// vectors writes (ptr, len) pairs to a memory.
func (m linear) vectors(at uint32, pairs ...uint32) {
	for i, n := range pairs {
		m.WriteUint32Le(at+4*uint32(i), n)
	}
}

func TestWriteKeepsTheLastBytes(t *testing.T) {
	p, m := testProcess(), linear{data: make([]byte, 256)}
	m.Write(100, []byte("hello, world"))
	m.vectors(0, 100, 5, 107, 5)
	if e := call(t, p, m, "fd_write", stdout, 0, 2, 64); e != success {
		t.Errorf("errno %d", e)
	}
	if n, _ := m.ReadUint32Le(64); n != 10 || string(p.Stdout.Bytes()) != "lloworld" || p.Stderr.Bytes() != nil {
		t.Errorf("%d bytes written, %q kept", n, p.Stdout.Bytes())
	}
	if copied, drawn := p.TakeWork(); copied != 10+2*vectorWork || drawn != 0 {
		t.Errorf("work of %d and %d bytes", copied, drawn)
	}
	if copied, _ := p.TakeWork(); copied != 0 {
		t.Errorf("%d bytes are counted twice", copied)
	}
	for name, c := range map[string]struct {
		fd, at, n, result uint64
		want              errno
	}{
		"to stdin":              {stdin, 0, 1, 64, badFile},
		"to a file":             {3, 0, 1, 64, badFile},
		"too many vectors":      {stderr, 0, maxVectors + 1, 64, invalid},
		"vectors outside":       {stderr, 252, 1, 64, badAddress},
		"result outside":        {stderr, 0, 1, 253, badAddress},
		"address overflows":     {stderr, math.MaxUint32 - 3, 1, 64, badAddress},
		"empty, result outside": {stderr, 0, 0, 1 << 31, badAddress},
	} {
		if e := call(t, p, m, "fd_write", c.fd, c.at, c.n, c.result); e != c.want {
			t.Errorf("%s: errno %d, want %d", name, e, c.want)
		}
	}
}

// TestWorkWithoutBytesCounts: vectors without bytes, and what a poll waits for.
func TestWorkWithoutBytesCounts(t *testing.T) {
	p, m := testProcess(), linear{data: make([]byte, 64<<10)}
	for name, c := range map[string]struct {
		args []uint64
		want int
	}{
		"fd_write":    {[]uint64{stdout, 0, maxVectors, 60_000}, maxVectors * vectorWork},
		"poll_oneoff": {[]uint64{0, 32_000, maxSubscriptions, 60_000}, maxSubscriptions * (subscriptionSize + eventSize)},
	} {
		if e := call(t, p, m, name, c.args...); e != success {
			t.Errorf("%s: errno %d", name, e)
		}
		if copied, _ := p.TakeWork(); copied != c.want {
			t.Errorf("%s: work of %d bytes, want %d", name, copied, c.want)
		}
	}
}

func TestTimeAndRandomnessAreTheCalls(t *testing.T) {
	p, m := testProcess(), linear{data: make([]byte, 256)}
	if e := call(t, p, m, "clock_time_get", 0, 0, 8); e != success || binary.LittleEndian.Uint64(m.data[8:]) != 2000 {
		t.Errorf("errno %d, time % x", e, m.data[8:16])
	}
	if e := call(t, p, m, "clock_time_get", lastClock+1, 0, 8); e != invalid {
		t.Errorf("an unknown clock: errno %d", e)
	}
	if e := call(t, p, m, "random_get", 32, 16); e != success || strings.Count(string(m.data[32:48]), "\x00") > 8 {
		t.Errorf("errno %d, random % x", e, m.data[32:48])
	}
	if _, drawn := p.TakeWork(); drawn != 16 {
		t.Errorf("work of %d random bytes", drawn)
	}
	if e := call(t, p, m, "random_get", 0, maxRandom+1); e != invalid {
		t.Errorf("more than maxRandom: errno %d", e)
	}
}

func TestTheOnlyArgumentIsAName(t *testing.T) {
	p, m := testProcess(), linear{data: make([]byte, 32)}
	if e := call(t, p, m, "args_sizes_get", 0, 4); e != success || string(m.data[:8]) != "\x01\x00\x00\x00\x07\x00\x00\x00" {
		t.Errorf("errno %d, % x", e, m.data)
	}
	if e := call(t, p, m, "args_get", 8, 16); e != success || string(m.data[8:24]) != "\x10\x00\x00\x00\x00\x00\x00\x00plugin\x00\x00" {
		t.Errorf("errno %d, %q", e, m.data)
	}
	for _, c := range [][2]uint64{{0, 26}, {32, 0}} {
		if e := call(t, p, m, "args_get", c[0], c[1]); e != badAddress {
			t.Errorf("%d: errno %d", c, e)
		}
	}
}

func TestEnvironmentAndFilesAreEmpty(t *testing.T) {
	p, m := testProcess(), linear{data: []byte("xxxxxxxxxxxxxxxx")}
	if e := call(t, p, m, "environ_sizes_get", 0, 4); e != success || string(m.data[:8]) != strings.Repeat("\x00", 8) {
		t.Errorf("errno %d, % x", e, m.data)
	}
	if e := call(t, p, m, "fd_prestat_get", 3, 0); e != badFile {
		t.Errorf("a directory: errno %d", e)
	}
}

func TestProcExitPanicsWithTheCode(t *testing.T) {
	defer func() {
		err, _ := recover().(error)
		if exit, ok := errors.AsType[*Exit](err); !ok || exit.Code != 3 || exit.Error() != "the guest exited with code 3" {
			t.Errorf("panic = %v", err)
		}
	}()
	for _, f := range Functions {
		if f.Name == "proc_exit" {
			f.Call(testProcess(), linear{}, []uint64{3})
		}
	}
	t.Error("proc_exit returned")
}
