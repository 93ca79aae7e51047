// Package wasi is the system interface of guests (WASI snapshot preview 1). It
// gives them nothing of the host: no arguments but a name, no environment, no files and no
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

// Function is one function of the interface.
type Function struct {
	Name   string
	params string // i is an i32, I an i64
	call   systemCall
}

// Functions lists all functions of the snapshot.
var Functions = []Function{
	{"args_get", "ii", argument},
	{"args_sizes_get", "ii", argumentSizes},
	{"clock_res_get", "ii", clockResolution},
	{"clock_time_get", "iIi", clockTime},
	{"environ_get", "ii", returning(success)},
	{"environ_sizes_get", "ii", emptyList},
	{"fd_advise", "iIIi", unservedFile},
	{"fd_allocate", "iII", unservedFile},
	{"fd_close", "i", forStdio(returning(success))},
	{"fd_datasync", "i", unservedFile},
	{"fd_fdstat_get", "ii", forStdio(descriptorStatus)},
	{"fd_fdstat_set_flags", "ii", unservedFile},
	{"fd_fdstat_set_rights", "iII", unservedFile},
	{"fd_filestat_get", "ii", unservedFile},
	{"fd_filestat_set_size", "iI", unservedFile},
	{"fd_filestat_set_times", "iIIi", unservedFile},
	{"fd_pread", "iiiIi", unservedFile},
	{"fd_prestat_dir_name", "iii", unservedFile},
	{"fd_prestat_get", "ii", unservedFile},
	{"fd_pwrite", "iiiIi", unservedFile},
	{"fd_read", "iiii", forStdio(endOfFile)},
	{"fd_readdir", "iiiIi", unservedFile},
	{"fd_renumber", "ii", unservedFile},
	{"fd_seek", "iIii", forStdio(returning(notSeekable))},
	{"fd_sync", "i", unservedFile},
	{"fd_tell", "ii", forStdio(returning(notSeekable))},
	{"fd_write", "iiii", forStdio(write)},
	{"path_create_directory", "iii", unservedFile},
	{"path_filestat_get", "iiiii", unservedFile},
	{"path_filestat_set_times", "iiiiIIi", unservedFile},
	{"path_link", "iiiiiii", unservedFile},
	{"path_open", "iiiiiIIii", unservedFile},
	{"path_readlink", "iiiiii", unservedFile},
	{"path_remove_directory", "iii", unservedFile},
	{"path_rename", "iiiiii", unservedFile},
	{"path_symlink", "iiiii", unservedLink},
	{"path_unlink_file", "iii", unservedFile},
	{"poll_oneoff", "iiii", poll},
	{"proc_exit", "i", exit},
	{"proc_raise", "i", unserved},
	{"random_get", "ii", random},
	{"sched_yield", "", unserved},
	{"sock_accept", "iii", unservedFile},
	{"sock_recv", "iiiiii", unservedFile},
	{"sock_send", "iiiii", unservedFile},
	{"sock_shutdown", "ii", unservedFile},
}

// Type returns the signature: all functions return an i32 except for proc_exit.
func (f Function) Type() wasm.FuncType {
	types := make([]wasm.ValueType, len(f.params))
	for i := range types {
		types[i] = map[byte]wasm.ValueType{'i': wasm.I32, 'I': wasm.I64}[f.params[i]]
	}
	if f.Name == "proc_exit" {
		return wasm.Signature(types)
	}
	return wasm.Signature(types, wasm.I32)
}

// Call calls the function. Parameters and result are on the stack, as in
// [api.GoModuleFunction]. proc_exit does not return: it panics with an [*Exit].
func (f Function) Call(p *Process, memory api.Memory, stack []uint64) {
	stack[0] = uint64(f.call(p, memory, stack))
}
