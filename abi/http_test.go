package abi

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

// httpWith returns a manifest with the feature http, and one controller with these entries.
func httpWith(entries string) string {
	return strings.Replace(manifestWith(`"http":[`+entries+`]`), `"controllers"`, `"features":["http"],"controllers"`, 1)
}

func TestInvalidHTTPHostIsRefused(t *testing.T) {
	const path = `controllers[0].http[0]`
	expectRefused(t, DecodeManifest, []refusal{
		{manifestWith(`"http":[{"host":"a"}]`), `controllers[0].http: needs the feature "http": name it in features`},
		{httpWith(`{}`), path + `.host: is required: a name or an address, with a port unless it is that of the scheme, such as api.example.com; or *`},
		{httpWith(`{"host":"API.example.com"}`), path + `.host: "API.example.com" is not a host in lower case, such as api.example.com or api.example.com:8443`},
		{httpWith(`{"host":"https://a"}`), path + `.host: "https://a" is not a host in lower case, such as api.example.com or api.example.com:8443`},
		{httpWith(`{"host":"a.*"}`), path + `.host: "a.*" is not a host in lower case, such as api.example.com or api.example.com:8443`},
		{httpWith(`{"host":"*."}`), path + `.host: "*." is not a host in lower case, such as api.example.com or api.example.com:8443`},
		{httpWith(`{"host":"u@a"}`), path + `.host: "u@a" is not a host in lower case, such as api.example.com or api.example.com:8443`},
		{httpWith(`{"host":"` + strings.Repeat("a", MaxHTTPHost+1) + `"}`), path + `.host: 261 bytes, the limit is 260`},
		{httpWith(`{"host":"a","methods":["get"]}`), path + `.methods[0]: "get" is not a method in upper case, such as PUT`},
		{httpWith(`{"host":"a","methods":[""]}`), path + `.methods[0]: is empty: name a method, such as PUT`},
		{httpWith(`{"host":"a","methods":["CONNECT"]}`), path + `.methods[0]: CONNECT is not supported: use GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS`},
		{httpWith(`{"host":"a","methods":["PUT","PUT"]}`), path + `.methods[1]: "PUT" is given twice`},
		{httpWith(`{"host":"a"},{"host":"a"}`), `controllers[0].http[1].host: "a" is given twice`},
	})
	for _, entries := range []string{
		`{"host":"*"}`, `{"host":"*.example.com:8443"}`, `{"host":"[fd00::7]:80"}`, `{"host":"10.0.0.7"}`, ``,
	} {
		if _, err := DecodeManifest([]byte(httpWith(entries))); err != nil {
			t.Errorf("%s: %v", entries, err)
		}
	}
}

// TestHostThatNoPolicyCanNameIsRefused: a plugin with it would load, and each of its requests be denied.
func TestHostThatNoPolicyCanNameIsRefused(t *testing.T) {
	label := strings.Repeat("a", 63)
	for _, host := range []string{
		"1.2.3", "1.2.3.4.5", "01.2.3.4", "1.2.3.256", "0x7f.0.0.1", "2130706433", "a.1", "a.0x1f", "a.0x",
		"a..b", ".a", "a.", "-a", "a-", "a.-b", "a-.b", label + "a.b", strings.Repeat(label+".", 4) + "a",
		"a:99999", "a:65536", "a:0", "a:0443", "a:+1", "a:-1", "a:", "a:b", ":80", "a:80:80",
		"[::1", "::1", "[::1]a", "[]", "[:]", "[:::]", "[1::2::3]", "[1:2:3:4:5:6:7]", "[1:2:3:4:5:6:7:8:9]", "[1::2:3:4:5:6:7:8]", "[12345::]", "[::g]", "[::A]", "[1.2.3.4]",
		"[1.2.3.4::]", "[::1.2.3]", "[fe80::1%eth0]", "[::1]:0", "[[::1]]", "*.[::1]", "*.1.2.3.4", "*.*.a", "*a", "*.", "*.:80", "a]", "a b", "a/b", "a%41", "A", "\u00e4",
	} {
		if err := checkHost(host); err == nil {
			t.Errorf("%q is accepted", host)
		}
	}
	for _, host := range []string{
		"a", "a.b-c.d", "xn--4ca.test", "1a.2b", "1.2.3.4", "255.255.255.255:1", "0.0.0.0", "a:65535", "*.a:1", "*.example.com", label + ".b", "0xg",
		"[::]", "[::1]:443", "[1::]", "[1:2:3:4:5:6:7:8]", "[1:2:3:4:5:6:1.2.3.4]", "[1::3:4:5:6:7:8]", "[::ffff:1.2.3.4]", "[fd00::7]", "[2001:db8:0:0::1]",
	} {
		if err := checkHost(host); err != nil {
			t.Error(err)
		}
	}
}

func TestInvalidHTTPCallIsRefused(t *testing.T) {
	const ok = `{"url":"https://a"}`
	expectRefused(t, DecodeHTTPCall, []refusal{
		{``, `the text ends where an object is expected (offset 0)`},
		{"\x00body", `the text ends where an object is expected (offset 0)`},
		{`{}`, `url: is required, such as https://api.example.com/`},
		{`{"url":"https://a","body":"b"}`, `unknown field "body" (offset 26)`},
		{`{"url":"https://a","method":"put"}`, `method: "put" is not a method in upper case, such as PUT`},
		{`{"url":"https://a","method":"TRACE"}`, `method: TRACE is not supported: use GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS`},
		{`{"url":"https://a","method":"` + strings.Repeat("A", MaxHTTPMethod+1) + `"}`, `method: 33 bytes, the limit is 32`},
		{`{"url":"` + strings.Repeat("a", MaxHTTPURL+1) + `"}`, `url: 8193 bytes, the limit is 8192`},
		{`{"url":"https://a","headers":[{"name":"a b"}]}`, `headers[0].name: "a b" is not the name of a header`},
		{`{"url":"https://a","headers":[{}]}`, `headers[0].name: "" is not the name of a header`},
		{`{"url":"https://a","headers":[{"name":"A","value":"b\r\nSecret: c"}]}`, `headers[0].value: of A has a control character`},
		{`{"url":"https://a","headers":[{"name":"A","value":"` + strings.Repeat("v", MaxHTTPHeader+1) + `"}]}`, `headers[0].value: 16385 bytes, the limit is 16384`},
		{`{"url":"https://a","timeout":-1}`, `timeout: must not be negative, is -1 (offset 31)`},
		{ok + "\x00" + strings.Repeat("b", MaxHTTPBody+1), `body: 1048577 bytes, the limit is 1048576`},
		{`{"url":"` + strings.Repeat("a", MaxCall) + `"}`, `longer than 65536 bytes (offset 65536)`},
	})
}

// TestBodyFollowsTheText: it may be any bytes, as many as are allowed.
func TestBodyFollowsTheText(t *testing.T) {
	for _, body := range []string{"", "a", "\x00", "\xff\x00{}", strings.Repeat("b", MaxHTTPBody)} {
		call := &HTTPCall{URL: "https://a", Body: []byte(body)}
		got, err := DecodeHTTPCall(EncodeHTTPCall(call))
		if err != nil || got.URL != call.URL || !bytes.Equal(got.Body, call.Body) {
			t.Errorf("a body of %d bytes has become %d bytes of %+v, %v", len(body), len(got.Body), got, err)
		}
		reply, err := DecodeHTTPReply(EncodeHTTPReply(&HTTPReply{Status: 204, Body: []byte(body)}))
		if err != nil || reply.Status != 204 || !bytes.Equal(reply.Body, call.Body) {
			t.Errorf("the body of a reply of %d bytes has become %+v, %v", len(body), reply, err)
		}
	}
}

func TestHTTPReplyIgnoresUnknownFields(t *testing.T) {
	r, err := DecodeHTTPReply([]byte(`{"new":[1],"status":301,"error":{"reason":"Later","new":1}}`))
	if want := (&HTTPReply{Status: 301, Error: &Failure{Reason: "Later"}}); err != nil || !reflect.DeepEqual(r, want) {
		t.Errorf("got %+v, %v", r, err)
	}
}
