package tck

import (
	"bytes"
	"encoding/binary"
	"strings"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/http"
)

// This file has guests that send requests.

// sending returns a manifest whose controller sends requests to the host of [Answered].
func sending(name string) []byte {
	return narrow(name, func(c *abi.Controller) { c.Sections = append(c.Sections, conformanceSection()) })
}

func conformanceSection() abi.Section {
	return abi.Section{Name: http.Name, Value: http.Encode([]http.Host{conformanceHost()})}
}

// httpCases send requests.
func httpCases() []Case {
	send := func(name, explain string, call []byte, want int64) Case {
		return succeeds(name, explain, 2, success(), func(g *guest) []byte {
			g.manifest = sending(name)
			sends := g.Import(abi.ImportModule, http.Import, ptrLen, i64Only)
			return g.finish(nil, trapIf(g.constant(call), Call(sends), I64Const(want), I64Ne), g.ok())
		})
	}
	with := func(body []byte) []byte { return putCall(body) }
	size := func(call []byte) int64 {
		reply, _ := Import(http.Import, call)
		return int64(len(reply))
	}
	const echo = "http-body"
	body := []byte("\x00\xff\x01\x02\x03\x04\x05\x06\x07") // the last eight are read as one number
	reply, _ := Import(http.Import, with(body))
	return []Case{
		send("http-request", "http returns the length of the reply", with(nil), size(with(nil))),
		succeeds(echo, "a body of any bytes reaches the server, and that of the answer the guest", 2, success(), func(g *guest) []byte {
			g.manifest = sending(echo)
			sends := g.Import(abi.ImportModule, http.Import, ptrLen, i64Only)
			return g.finish(nil,
				trapIf(g.constant(with(body)), Call(sends), I64Const(int64(len(reply))), I64Ne),
				I32Const(scratch), I32Const(int32(len(reply))), Call(g.input),
				trapIf(I32Const(scratch+int32(len(reply))-8), I64Load, I64Const(int64(binary.LittleEndian.Uint64(body[len(body)-8:]))), I64Ne),
				g.ok())
		}),
		send("http-largest-body", "a body may have 1 MiB", with(bytes.Repeat([]byte("b"), http.MaxBody)), size(with(bytes.Repeat([]byte("b"), http.MaxBody)))),
		send("http-large-body", "a body of one byte more returns -5", with(bytes.Repeat([]byte("b"), http.MaxBody+1)), abi.CodeInvalid),
		send("http-other-host", "a host that the manifest does not name returns -2", http.EncodeCall(&http.Call{URL: "https://other.example.com/"}), abi.CodeDenied),
		send("http-other-method", "a method that the manifest does not name returns -2", http.EncodeCall(&http.Call{URL: Answered, Method: "DELETE"}), abi.CodeDenied),
		send("http-header-injection", "a line break in a header returns -5", []byte(`{"url":"`+Answered+`","headers":[{"name":"A","value":"b\r\nC: d"}]}`), abi.CodeInvalid),
		send("http-without-url", "a request without a URL returns -5", []byte(`{"method":"GET"}`+"\x00"), abi.CodeInvalid),
		send("http-invalid", "a message that cannot be decoded returns -5", []byte("\x00"+strings.Repeat("x", 100)), abi.CodeInvalid),
	}
}

// putCall is a request with a body to [Answered].
func putCall(body []byte) []byte {
	return http.EncodeCall(&http.Call{Method: "PUT", URL: Answered, Body: body})
}
