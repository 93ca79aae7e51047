package wasi

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/tetratelabs/wazero/api"
)

// clock is the guest's time, in nanoseconds since 1970: it starts at
// the call's, and moves by each reading and each sleep.
type clock struct{ now int64 }

const clockStep = int64(time.Microsecond)

func (v *clock) read() int64 {
	v.now += clockStep
	return v.now
}

// sleepUntil moves the clock forward, never back.
func (v *clock) sleepUntil(t int64) { v.now = max(v.now, t) }

// Clocks: 0 is real time, 1 monotonic. Both are the call's virtual clock; the
// others, which count processor time, are not served.
const lastClock = 1

func clockTime(p *Process, memory api.Memory, args []uint64) errno {
	if uint32(args[0]) > lastClock {
		return invalid
	}
	return store64(memory, args[2], uint64(p.clock.read()))
}

func clockResolution(_ *Process, memory api.Memory, args []uint64) errno {
	if uint32(args[0]) > lastClock {
		return invalid
	}
	return store64(memory, args[1], uint64(clockStep))
}

func store64(memory api.Memory, ptr, value uint64) errno {
	if !memory.WriteUint64Le(uint32(ptr), value) {
		return badAddress
	}
	return success
}

const (
	mostSubscriptions = 64
	subscriptionSize  = 48
	eventSize         = 32
	clockEvent        = 0
	absoluteTime      = 1
)

// subscription is one entry of poll_oneoff: userdata u64, type u8 at 8, clock
// u32 at 16, timeout u64 at 24, precision u64 at 32, flags u16 at 40.
type subscription struct {
	userdata uint64
	kind     byte
	deadline int64 // of a clock, in the virtual clock's time
}

func (p *Process) subscription(entry []byte) subscription {
	s := subscription{userdata: binary.LittleEndian.Uint64(entry), kind: entry[8]}
	timeout := int64(min(binary.LittleEndian.Uint64(entry[24:]), math.MaxInt64))
	s.deadline = timeout
	if binary.LittleEndian.Uint16(entry[40:])&absoluteTime == 0 {
		s.deadline = addSaturated(p.clock.now, timeout)
	}
	return s
}

func addSaturated(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// poll never waits: descriptors fail at once, and if there is none the clock
// moves to the earliest deadline. A guest that sleeps for ever is a guest that
// spins, and ends by its own deadline.
func poll(p *Process, memory api.Memory, args []uint64) errno {
	n := uint32(args[2])
	if n == 0 || n > mostSubscriptions {
		return invalid
	}
	in, ok := memory.Read(uint32(args[0]), n*subscriptionSize)
	if !ok {
		return badAddress
	}
	subscriptions := make([]subscription, n)
	for i := range subscriptions {
		subscriptions[i] = p.subscription(in[i*subscriptionSize:])
	}
	events := p.events(subscriptions)
	if !memory.Write(uint32(args[1]), events) {
		return badAddress
	}
	return store32(memory, args[3], uint32(len(events)/eventSize))
}

// events are those that happen first: userdata u64, errno u16 at 8, type u8 at
// 10.
func (p *Process) events(subscriptions []subscription) []byte {
	var out []byte
	for _, s := range subscriptions {
		if s.kind != clockEvent {
			out = appendEvent(out, s, badFile)
		}
	}
	if out != nil {
		return out
	}
	earliest := int64(math.MaxInt64)
	for _, s := range subscriptions {
		earliest = min(earliest, s.deadline)
	}
	p.clock.sleepUntil(earliest)
	for _, s := range subscriptions {
		if s.deadline <= p.clock.now {
			out = appendEvent(out, s, success)
		}
	}
	return out
}

func appendEvent(out []byte, s subscription, e errno) []byte {
	var event [eventSize]byte
	binary.LittleEndian.PutUint64(event[:], s.userdata)
	binary.LittleEndian.PutUint16(event[8:], uint16(e))
	event[10] = s.kind
	return append(out, event[:]...)
}
