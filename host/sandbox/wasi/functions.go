package wasi

import (
	"github.com/tetratelabs/wazero/api"

	"github.com/thole-dev/thole/host/sandbox/module"
)

// ImportModule is what guests import the interface from.
const ImportModule = "wasi_snapshot_preview1"

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
type systemCall func(p *Process, memory api.Memory, args []uint64) errno

// signatures are all functions of the snapshot: i is an i32, I an i64;
// all but proc_exit return an i32. Those without an entry in systemCalls
// answer badFile for an unknown descriptor and else notServed.
var signatures = []struct{ name, params string }{
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
	"args_get":          func(*Process, api.Memory, []uint64) errno { return success },
	"args_sizes_get":    emptyList,
	"clock_res_get":     clockResolution,
	"clock_time_get":    clockTime,
	"environ_get":       func(*Process, api.Memory, []uint64) errno { return success },
	"environ_sizes_get": emptyList,
	"fd_close":          stdioOnly(func(*Process, api.Memory, []uint64) errno { return success }),
	"fd_fdstat_get":     stdioOnly(descriptorStatus),
	"fd_read":           stdioOnly(endOfFile),
	"fd_seek":           stdioOnly(func(*Process, api.Memory, []uint64) errno { return notSeekable }),
	"fd_tell":           stdioOnly(func(*Process, api.Memory, []uint64) errno { return notSeekable }),
	"fd_write":          stdioOnly(write),
	"poll_oneoff":       poll,
	"proc_exit":         func(_ *Process, _ api.Memory, args []uint64) errno { panic(&Exit{uint32(args[0])}) },
	"random_get":        random,
}

// Function is one function of the interface.
type Function struct {
	Name string
	Type module.FuncType
	// Call has parameters and result on the stack, as in
	// [api.GoModuleFunction]. proc_exit does not return: it panics with an
	// [*Exit].
	Call func(p *Process, memory api.Memory, stack []uint64)
}

// Functions are all that there are.
func Functions() []Function {
	out := make([]Function, len(signatures))
	for i, s := range signatures {
		out[i] = function(s.name, s.params)
	}
	return out
}

func function(name, shape string) Function {
	run, ok := systemCalls[name]
	if !ok {
		run = unserved(name)
	}
	return Function{Name: name, Type: typeOf(name, shape), Call: func(p *Process, memory api.Memory, stack []uint64) {
		answer := run(p, memory, stack)
		if len(stack) > 0 {
			stack[0] = uint64(answer)
		}
	}}
}

func typeOf(name, shape string) module.FuncType {
	types := make([]module.ValueType, len(shape))
	for i := range shape {
		types[i] = map[byte]module.ValueType{'i': module.I32, 'I': module.I64}[shape[i]]
	}
	if name == "proc_exit" {
		return module.Signature(types, nil)
	}
	return module.Signature(types, []module.ValueType{module.I32})
}

// unserved tells an unknown descriptor from a function that is not there.
func unserved(name string) systemCall {
	notThere := func(*Process, api.Memory, []uint64) errno { return notServed }
	if name == "path_symlink" { // its descriptor comes third
		return func(p *Process, memory api.Memory, args []uint64) errno {
			return stdioOnly(notThere)(p, memory, args[2:])
		}
	}
	for _, prefix := range []string{"fd_", "path_", "sock_"} {
		if len(name) > len(prefix) && name[:len(prefix)] == prefix {
			return stdioOnly(notThere)
		}
	}
	return notThere
}
