//go:build wasip1 || tinygo

// A guest that runs the command in the request's memo. It uses the ABI directly and
// is built by every toolchain.
package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"time"
	"unsafe"

	"github.com/thole-dev/thole/abi"
)

//go:wasmimport thole/v1 input
func hostInput(ptr unsafe.Pointer, length uint32)

//go:wasmimport thole/v1 output
func hostOutput(ptr unsafe.Pointer, length uint32)

//go:wasmimport thole/v1 log
func hostLog(level int32, ptr unsafe.Pointer, length uint32)

//go:wasmimport thole/v1 get
func hostGet(ptr unsafe.Pointer, length uint32) int64

//go:wasmexport thole_v1
func marker() {}

//go:wasmexport describe
func describe() int32 {
	return write(abi.EncodeManifest(&abi.Manifest{
		Name:    "probe",
		Version: "1",
		Controllers: []abi.Controller{{
			Name: "probe",
			For:  abi.Kind{APIVersion: "thole.dev/v1", Kind: "Probe"}.All(),
		}},
	}))
}

//go:wasmexport reconcile
func reconcile(length uint32) int32 {
	request, err := abi.DecodeRequest(read(length))
	if err != nil {
		return fail(err)
	}
	command, err := strconv.Unquote(string(request.Memo))
	if err != nil {
		return fail(err)
	}
	output, err := run(command)
	if err != nil {
		return fail(err)
	}
	return write(abi.EncodeResult(&abi.Result{Result: abi.OutcomeSuccess, Memo: []byte(strconv.Quote(output))}))
}

var (
	calls int
	kept  [][]byte
	seen  = map[string]int{}
)

func run(command string) (string, error) {
	switch command {
	case "count":
		calls++
		seen[command+strconv.Itoa(calls)] = calls
		return strconv.Itoa(calls + len(seen)), nil
	case "panic":
		panic("as commanded")
	case "divide":
		return strconv.Itoa(1 / (calls - calls)), nil
	case "exit":
		fmt.Fprintln(os.Stderr, "goodbye")
		os.Exit(3)
	case "reference":
		return fmt.Sprint(regexp.MustCompile(reference).MatchString("registry.example.com:5000/a/b:v1.2")), nil
	case "recurse":
		return strconv.Itoa(recurse(1)), nil
	case "exhaust":
		for {
			kept = append(kept, make([]byte, 1<<20))
		}
	case "grow":
		kept = append(kept, make([]byte, 1<<18))
		return "", nil
	case "spin":
		for {
			calls++
		}
	case "sleep":
		began := time.Now()
		time.Sleep(time.Hour)
		return time.Since(began).Truncate(time.Minute).String(), nil
	case "clock":
		return time.Now().UTC().Format(time.RFC3339), nil
	case "random":
		var b [16]byte
		if _, err := rand.Read(b[:]); err != nil {
			return "", err
		}
		return hex.EncodeToString(b[:]), nil
	case "environment":
		return fmt.Sprint(len(os.Environ()), len(os.Args) > 1), nil
	case "file":
		_, err := os.ReadFile("/etc/passwd")
		return fmt.Sprint(err != nil), nil
	case "log":
		line := []byte("from the probe")
		hostLog(abi.LogWarn, unsafe.Pointer(&line[0]), uint32(len(line)))
		return "", nil
	case "print": // and exit: stdout and stderr are kept for failures
		fmt.Println("to stdout")
		fmt.Fprintln(os.Stderr, "to stderr")
		os.Exit(1)
	case "get":
		return get()
	}
	return "", errors.New("unknown command " + command)
}

// reference is the expression of github.com/distribution/reference for the name of an image. Its tag nests 127 levels.
const (
	host      = `(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])(?:\.(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9]))*(?::[0-9]+)?`
	path      = `[a-z0-9]+(?:(?:[._]|__|[-]+)[a-z0-9]+)*`
	reference = `^((?:` + host + `/)?` + path + `(?:/` + path + `)*)(?::([\w][\w.-]{0,127}))?(?:@([A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*[:][[:xdigit:]]{32,}))?$`
)

//go:noinline
func recurse(n int) int {
	var frame [64]int
	frame[n%64] = n
	return recurse(n+1) + frame[(n+1)%64]
}

func get() (string, error) {
	call := abi.EncodeGetCall(&abi.GetCall{Ref: abi.Ref{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Name: "tck"}})
	length := hostGet(unsafe.Pointer(&call[0]), uint32(len(call)))
	if length < 0 {
		return strconv.FormatInt(length, 10), nil
	}
	return string(read(uint32(length))), nil
}

func fail(err error) int32 {
	write(abi.EncodeResult(&abi.Result{Error: &abi.Failure{Reason: "Probe", Message: err.Error()}}))
	return int32(abi.CodeStalled)
}

func read(length uint32) []byte {
	if length == 0 {
		return nil
	}
	p := make([]byte, length)
	hostInput(unsafe.Pointer(&p[0]), length)
	return p
}

func write(p []byte) int32 {
	hostOutput(unsafe.Pointer(&p[0]), uint32(len(p)))
	return int32(abi.CodeOK)
}

func main() {}
