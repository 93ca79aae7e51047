package sandbox

import (
	"context"
	"encoding/binary"

	"github.com/tetratelabs/wazero/api"

	"github.com/thole-dev/thole/host/sandbox/module"
)

// The system interface gives a guest nothing of the host: no arguments, no
// environment, no files, no sockets; its time and randomness are the call's.
// Compilers' runtimes import it and rely on the exact answers below: standard
// Go panics at start if the lists are not empty successes or if unknown
// descriptors are not EBADF.
const wasiModule = "wasi_snapshot_preview1"

// errno is an error number of the system interface.
type errno uint64

const (
	success     errno = 0
	badFile     errno = 8
	badAddress  errno = 21
	invalid     errno = 28
	notServed   errno = 52
	notSeekable errno = 70
)

const (
	stdin  = 0
	stdout = 1
	stderr = 2
)

// systemCall answers with an error number.
type systemCall func(c *call, memory api.Memory, args []uint64) errno

// wasiSignatures are all functions of the snapshot: i is an i32, I an i64;
// all but proc_exit return an i32. Those without an entry in systemCalls
// answer badFile for an unknown descriptor and else notServed.
var wasiSignatures = []struct{ name, params string }{
	{"args_get", "ii"},
	{"args_sizes_get", "ii"},
	{"clock_res_get", "ii"},
	{"clock_time_get", "iIi"},
	{"environ_get", "ii"},
	{"environ_sizes_get", "ii"},
	{"fd_advise", "iIIi"},
	{"fd_allocate", "iII"},
	{"fd_close", "i"},
	{"fd_datasync", "i"},
	{"fd_fdstat_get", "ii"},
	{"fd_fdstat_set_flags", "ii"},
	{"fd_fdstat_set_rights", "iII"},
	{"fd_filestat_get", "ii"},
	{"fd_filestat_set_size", "iI"},
	{"fd_filestat_set_times", "iIIi"},
	{"fd_pread", "iiiIi"},
	{"fd_prestat_dir_name", "iii"},
	{"fd_prestat_get", "ii"},
	{"fd_pwrite", "iiiIi"},
	{"fd_read", "iiii"},
	{"fd_readdir", "iiiIi"},
	{"fd_renumber", "ii"},
	{"fd_seek", "iIii"},
	{"fd_sync", "i"},
	{"fd_tell", "ii"},
	{"fd_write", "iiii"},
	{"path_create_directory", "iii"},
	{"path_filestat_get", "iiiii"},
	{"path_filestat_set_times", "iiiiIIi"},
	{"path_link", "iiiiiii"},
	{"path_open", "iiiiiIIii"},
	{"path_readlink", "iiiiii"},
	{"path_remove_directory", "iii"},
	{"path_rename", "iiiiii"},
	{"path_symlink", "iiiii"},
	{"path_unlink_file", "iii"},
	{"poll_oneoff", "iiii"},
	{"proc_exit", "i"},
	{"proc_raise", "i"},
	{"random_get", "ii"},
	{"sched_yield", ""},
	{"sock_accept", "iii"},
	{"sock_recv", "iiiiii"},
	{"sock_send", "iiiii"},
	{"sock_shutdown", "ii"},
}

var systemCalls = map[string]systemCall{
	"args_get":          func(*call, api.Memory, []uint64) errno { return success },
	"args_sizes_get":    emptyList,
	"clock_res_get":     clockResolution,
	"clock_time_get":    clockTime,
	"environ_get":       func(*call, api.Memory, []uint64) errno { return success },
	"environ_sizes_get": emptyList,
	"fd_close":          stdioOnly(func(*call, api.Memory, []uint64) errno { return success }),
	"fd_fdstat_get":     stdioOnly(descriptorStatus),
	"fd_read":           stdioOnly(endOfFile),
	"fd_seek":           stdioOnly(func(*call, api.Memory, []uint64) errno { return notSeekable }),
	"fd_tell":           stdioOnly(func(*call, api.Memory, []uint64) errno { return notSeekable }),
	"fd_write":          stdioOnly(write),
	"poll_oneoff":       poll,
	"proc_exit":         func(_ *call, _ api.Memory, args []uint64) errno { panic(&exited{uint32(args[0])}) },
	"random_get":        random,
}

func wasiFunctions() []hostFunction {
	out := make([]hostFunction, len(wasiSignatures))
	for i, s := range wasiSignatures {
		out[i] = wasiFunction(s.name, s.params)
	}
	return out
}

func wasiFunction(name, shape string) hostFunction {
	f := hostFunction{name: name, typ: wasiType(name, shape)}
	run, ok := systemCalls[name]
	if !ok {
		run = unserved(name)
	}
	f.run = func(_ context.Context, c *call, memory api.Memory, stack []uint64) {
		answer := run(c, memory, stack)
		if len(stack) > 0 {
			stack[0] = uint64(answer)
		}
	}
	return f
}

func wasiType(name, shape string) module.FuncType {
	types := make([]module.ValueType, len(shape))
	for i := range shape {
		types[i] = map[byte]module.ValueType{'i': i32, 'I': i64}[shape[i]]
	}
	if name == "proc_exit" {
		return signature(types)
	}
	return signature(types, i32)
}

// unserved tells an unknown descriptor from a function that is not there.
func unserved(name string) systemCall {
	notThere := func(*call, api.Memory, []uint64) errno { return notServed }
	if name == "path_symlink" { // its descriptor comes third
		return func(c *call, memory api.Memory, args []uint64) errno {
			return stdioOnly(notThere)(c, memory, args[2:])
		}
	}
	for _, prefix := range []string{"fd_", "path_", "sock_"} {
		if len(name) > len(prefix) && name[:len(prefix)] == prefix {
			return stdioOnly(notThere)
		}
	}
	return notThere
}

// stdioOnly answers badFile for descriptors other than the three.
func stdioOnly(then systemCall) systemCall {
	return func(c *call, memory api.Memory, args []uint64) errno {
		if uint32(args[0]) > stderr {
			return badFile
		}
		return then(c, memory, args)
	}
}

func emptyList(_ *call, memory api.Memory, args []uint64) errno {
	if !memory.WriteUint32Le(uint32(args[0]), 0) || !memory.WriteUint32Le(uint32(args[1]), 0) {
		return badAddress
	}
	return success
}

func endOfFile(_ *call, memory api.Memory, args []uint64) errno {
	if uint32(args[0]) != stdin {
		return badFile
	}
	return store32(memory, args[3], 0)
}

func store32(memory api.Memory, ptr uint64, value uint32) errno {
	if !memory.WriteUint32Le(uint32(ptr), value) {
		return badAddress
	}
	return success
}

// descriptorStatus writes a character device with the rights to read and
// write: filetype u8, flags u16 at 2, rights u64 at 8 and 16.
func descriptorStatus(_ *call, memory api.Memory, args []uint64) errno {
	const characterDevice, readAndWrite = 2, 1<<1 | 1<<6
	var status [24]byte
	status[0] = characterDevice
	binary.LittleEndian.PutUint64(status[8:], readAndWrite)
	if !memory.Write(uint32(args[1]), status[:]) {
		return badAddress
	}
	return success
}

const mostVectors = 1024 // of one write

func write(c *call, memory api.Memory, args []uint64) errno {
	fd, vectors, n := uint32(args[0]), uint32(args[1]), uint32(args[2])
	if fd == stdin {
		return badFile
	}
	if n > mostVectors {
		return invalid
	}
	sink := &c.stdout
	if fd == stderr {
		sink = &c.stderr
	}
	var written uint32
	for i := range n {
		p, ok := vector(memory, vectors+8*i)
		if !ok {
			return badAddress
		}
		c.owe(copyFuel(sink.write(p)))
		written += uint32(len(p))
	}
	return store32(memory, args[3], written)
}

// vector is the memory that a (ptr, len) pair in memory points to.
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

const mostRandom = 1 << 20 // bytes of one call

func random(c *call, memory api.Memory, args []uint64) errno {
	if uint32(args[1]) > mostRandom {
		return invalid
	}
	p, ok := memory.Read(uint32(args[0]), uint32(args[1]))
	if !ok {
		return badAddress
	}
	c.randomBytes(p)
	c.owe(int64(len(p)) * randomFuel)
	return success
}
