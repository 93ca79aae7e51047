// Package wasi is the system interface of guests (WASI snapshot preview 1). It
// gives them nothing of the host: no arguments, no environment, no files and no
// sockets. A [Process] keeps the last bytes of what a guest prints; time and
// randomness are those of the call.
//
// The runtimes of compilers import it and rely on exact results: standard Go
// panics at start unless the lists are empty and unknown descriptors are EBADF.
//
// This file has the list of functions, calls.go those that do something, and
// process.go the state of a call.
package wasi

import (
	"strings"

	"github.com/tetratelabs/wazero/api"

	"github.com/thole-dev/thole/abi/wasm"
)

// ImportModule is the module that guests import the interface from.
const ImportModule = "wasi_snapshot_preview1"

// errno is an error number of the system interface.
type errno uint64

const (
	success     errno = 0
	badFile     errno = 8  // EBADF
	badAddress  errno = 21 // EFAULT
	invalid     errno = 28 // EINVAL
	notServed   errno = 52 // ENOSYS
	notSeekable errno = 70 // ESPIPE
)

const (
	stdin  = 0
	stdout = 1
	stderr = 2
)

// systemCall is a function of the interface.
type systemCall func(p *Process, memory api.Memory, args []uint64) errno

// signatures lists all functions of the snapshot with their parameters: i is an
// i32, I an i64. All of them return an i32 except for proc_exit. Functions
// without an entry in systemCalls return badFile for an unknown descriptor, and
// notServed otherwise.
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
	"args_get":          returning(success),
	"args_sizes_get":    emptyList,
	"clock_res_get":     clockResolution,
	"clock_time_get":    clockTime,
	"environ_get":       returning(success),
	"environ_sizes_get": emptyList,
	"fd_close":          forStdio(returning(success)),
	"fd_fdstat_get":     forStdio(descriptorStatus),
	"fd_read":           forStdio(endOfFile),
	"fd_seek":           forStdio(returning(notSeekable)),
	"fd_tell":           forStdio(returning(notSeekable)),
	"fd_write":          forStdio(write),
	"poll_oneoff":       poll,
	"proc_exit":         func(_ *Process, _ api.Memory, args []uint64) errno { panic(&Exit{uint32(args[0])}) },
	"random_get":        random,
}

// Function is one function of the interface.
type Function struct {
	Name string
	Type wasm.FuncType
	// Call has parameters and result on the stack, as in
	// [api.GoModuleFunction]. proc_exit does not return: it panics with an
	// [*Exit].
	Call func(p *Process, memory api.Memory, stack []uint64)
}

// Functions returns all functions of the interface.
func Functions() []Function {
	out := make([]Function, len(signatures))
	for i, s := range signatures {
		run, ok := systemCalls[s.name]
		if !ok {
			run = unserved(s.name)
		}
		out[i] = Function{Name: s.name, Type: typeOf(s.name, s.params), Call: func(p *Process, memory api.Memory, stack []uint64) {
			result := run(p, memory, stack)
			if len(stack) > 0 {
				stack[0] = uint64(result)
			}
		}}
	}
	return out
}

func typeOf(name, params string) wasm.FuncType {
	types := make([]wasm.ValueType, len(params))
	for i := range params {
		types[i] = map[byte]wasm.ValueType{'i': wasm.I32, 'I': wasm.I64}[params[i]]
	}
	if name == "proc_exit" {
		return wasm.Signature(types)
	}
	return wasm.Signature(types, wasm.I32)
}

// unserved returns a function that fails. Those with a descriptor distinguish
// an unknown one, as programs probe descriptors until they get EBADF.
func unserved(name string) systemCall {
	fail := returning(notServed)
	if name == "path_symlink" { // its descriptor is the third parameter
		return func(p *Process, memory api.Memory, args []uint64) errno {
			return forStdio(fail)(p, memory, args[2:])
		}
	}
	for _, prefix := range []string{"fd_", "path_", "sock_"} {
		if strings.HasPrefix(name, prefix) {
			return forStdio(fail)
		}
	}
	return fail
}
