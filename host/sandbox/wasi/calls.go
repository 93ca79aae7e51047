package wasi

import (
	"cmp"
	"encoding/binary"
	"math"
	"time"

	"github.com/tetratelabs/wazero/api"
)

func returning(e errno) systemCall {
	return func(*Process, api.Memory, []uint64) errno { return e }
}

// Functions that are not served. Those of files report an unknown descriptor as
// such, as programs probe descriptors until they get EBADF.
var (
	unserved     = returning(notServed)
	unservedFile = forStdio(unserved)
)

// unservedLink is unservedFile for path_symlink, whose third parameter is the
// descriptor.
func unservedLink(p *Process, memory api.Memory, args []uint64) errno {
	return unservedFile(p, memory, args[2:])
}

func exit(_ *Process, _ api.Memory, args []uint64) errno { panic(&Exit{uint32(args[0])}) }

// forStdio returns badFile for descriptors other than the three standard ones.
func forStdio(call systemCall) systemCall {
	return func(p *Process, memory api.Memory, args []uint64) errno {
		if uint32(args[0]) > stderr {
			return badFile
		}
		return call(p, memory, args)
	}
}

func store32(memory api.Memory, ptr uint64, value uint32) errno {
	if !memory.WriteUint32Le(uint32(ptr), value) {
		return badAddress
	}
	return success
}

func store64(memory api.Memory, ptr, value uint64) errno {
	if !memory.WriteUint64Le(uint32(ptr), value) {
		return badAddress
	}
	return success
}

// programName is the one argument of a guest. Packages such as klog expect it at their start.
const programName = "plugin"

// argumentSizes writes the number of arguments, and of the bytes that they take.
func argumentSizes(_ *Process, memory api.Memory, args []uint64) errno {
	return cmp.Or(store32(memory, args[0], 1), store32(memory, args[1], uint32(len(programName)+1)))
}

// argument writes the address of the argument, and the argument with the zero byte that ends it.
func argument(_ *Process, memory api.Memory, args []uint64) errno {
	if !memory.Write(uint32(args[1]), []byte(programName+"\x00")) {
		return badAddress
	}
	return store32(memory, args[0], uint32(args[1]))
}

// emptyList writes the number of strings of a list, and the number of bytes that
// they take.
func emptyList(_ *Process, memory api.Memory, args []uint64) errno {
	if !memory.WriteUint32Le(uint32(args[0]), 0) || !memory.WriteUint32Le(uint32(args[1]), 0) {
		return badAddress
	}
	return success
}

func endOfFile(_ *Process, memory api.Memory, args []uint64) errno {
	if uint32(args[0]) != stdin {
		return badFile
	}
	return store32(memory, args[3], 0)
}

// descriptorStatus writes a character device with the rights to read and write:
// filetype u8, flags u16 at 2, rights u64 at 8 and 16.
func descriptorStatus(_ *Process, memory api.Memory, args []uint64) errno {
	const characterDevice, readAndWrite = 2, 1<<1 | 1<<6
	var status [24]byte
	status[0] = characterDevice
	binary.LittleEndian.PutUint64(status[8:], readAndWrite)
	if !memory.Write(uint32(args[1]), status[:]) {
		return badAddress
	}
	return success
}

const (
	maxVectors = 1024 // of one write
	vectorWork = 64   // for one, as if so many bytes were copied
)

func write(p *Process, memory api.Memory, args []uint64) errno {
	fd, vectors, n := uint32(args[0]), uint32(args[1]), uint32(args[2])
	if fd == stdin {
		return badFile
	}
	if n > maxVectors {
		return invalid
	}
	tail := &p.Stdout
	if fd == stderr {
		tail = &p.Stderr
	}
	p.copied += int(n) * vectorWork
	var written uint64
	for i := range n {
		data, ok := vector(memory, vectors+8*i)
		if !ok {
			return badAddress
		}
		written += uint64(len(data))
	}
	left := written
	for i := range n { // what is written last is all that is kept
		data, _ := vector(memory, vectors+8*i)
		if left -= uint64(len(data)); left < uint64(tail.limit) {
			p.copied += tail.Add(data)
		}
	}
	return store32(memory, args[3], uint32(written))
}

// vector returns the memory that a pair of address and length in memory points
// to.
func vector(memory api.Memory, at uint32) ([]byte, bool) {
	ptr, ok := memory.ReadUint32Le(at)
	if !ok {
		return nil, false
	}
	length, ok := memory.ReadUint32Le(at + 4)
	if !ok {
		return nil, false
	}
	return memory.Read(ptr, length)
}

const maxRandom = 1 << 20 // bytes of one call

func random(p *Process, memory api.Memory, args []uint64) errno {
	if uint32(args[1]) > maxRandom {
		return invalid
	}
	data, ok := memory.Read(uint32(args[0]), uint32(args[1]))
	if !ok {
		return badAddress
	}
	p.readRandom(data)
	return success
}

// The clocks 0, real time, and 1, monotonic, are both the call's virtual clock.
// Clocks of processor time are not served.
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

const (
	maxSubscriptions = 64
	subscriptionSize = 48
	eventSize        = 32
	clockEvent       = 0
	absoluteTime     = 1
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

// poll never waits. Descriptors fail at once, and if there is none the clock
// advances to the earliest deadline. A guest that sleeps in a loop spins, and is
// ended by the deadline of its call.
func poll(p *Process, memory api.Memory, args []uint64) errno {
	n := uint32(args[2])
	if n == 0 || n > maxSubscriptions {
		return invalid
	}
	p.copied += int(n) * (subscriptionSize + eventSize)
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

// events returns the events that happen first.
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
	p.clock.advanceTo(earliest)
	for _, s := range subscriptions {
		if s.deadline <= p.clock.now {
			out = appendEvent(out, s, success)
		}
	}
	return out
}

// appendEvent appends userdata u64, errno u16 at 8, type u8 at 10.
func appendEvent(out []byte, s subscription, e errno) []byte {
	var event [eventSize]byte
	binary.LittleEndian.PutUint64(event[:], s.userdata)
	binary.LittleEndian.PutUint16(event[8:], uint16(e))
	event[10] = s.kind
	return append(out, event[:]...)
}

// clock is the guest's time in nanoseconds since 1970. It starts at the time of
// the call, and advances with each reading and each sleep.
type clock struct{ now int64 }

const clockStep = int64(time.Microsecond)

func (c *clock) read() int64 {
	c.now += clockStep
	return c.now
}

// advanceTo moves the clock forward, never back.
func (c *clock) advanceTo(t int64) { c.now = max(c.now, t) }
