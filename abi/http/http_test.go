package http

import (
	"bytes"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/internal/goldentest"
	"github.com/thole-dev/thole/abi/message"
	"github.com/thole-dev/thole/abi/rawjson"
)

func fullCall() *Call {
	return &Call{
		Method: "PUT", URL: "https://api.example.com:8443/sites/shop?wait=1",
		Headers: []Header{{Name: "Content-Type", Value: "application/json"}, {Name: "X-Empty"}}, Timeout: 5_000,
	}
}

func fullReply() *Reply {
	return &Reply{
		Status: 200, URL: "https://api.example.com/sites/shop",
		Headers: []Header{{Name: "Etag", Value: `"a1"`}},
		Error:   &abi.Failure{Reason: Timeout, Message: "no answer within 5s"},
	}
}

func TestWhatIsEncodedIsDecoded(t *testing.T) {
	all := []Host{{Host: "api.example.com:8443", Methods: []string{"GET", "PUT"}}, {Host: "*"}}
	text := Encode(all)
	if want := `[{"host":"api.example.com:8443","methods":["GET","PUT"]},{"host":"*"}]`; string(text) != want {
		t.Errorf("%s, want %s", text, want)
	}
	if got, err := Decode(text); err != nil || !reflect.DeepEqual(got, all) || Check(nil, text) != nil {
		t.Errorf("%+v, %v", got, err)
	}
	c := &abi.Controller{Sections: []abi.Section{{Name: Name, Value: text}}}
	if got := HostsOf(c); !reflect.DeepEqual(got, all) || HostsOf(&abi.Controller{}) != nil {
		t.Errorf("%+v", got)
	}
	goldentest.Expect(t, "call", EncodeCall(fullCall()))
	if c, err := DecodeCall(EncodeCall(fullCall())); err != nil || !reflect.DeepEqual(c, fullCall()) {
		t.Errorf("%+v, %v", c, err)
	}
	goldentest.Expect(t, "reply", EncodeReply(fullReply()))
	if r, err := DecodeReply(EncodeReply(fullReply())); err != nil || !reflect.DeepEqual(r, fullReply()) {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestSpecification compares SPEC.md with the types, the examples with the codec, and looks for the reasons.
func TestSpecification(t *testing.T) {
	spec, err := os.ReadFile("SPEC.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z]+)` \\| [[a-z]").FindAllSubmatch(spec, -1) {
		rows = append(rows, string(m[1]))
	}
	var want []string
	for _, list := range []func(*message.Fields){(&Host{}).fields, (&Call{}).fields, (&Header{}).fields, (&Reply{}).fields} {
		want = append(want, message.Names(list)...)
	}
	if !slices.Equal(rows, want) {
		t.Errorf("the tables have\n%q, the messages\n%q", rows, want)
	}
	examples := regexp.MustCompile("(?s)```json ([a-z]+)\n(.*?)\n```").FindAllSubmatch(spec, -1)
	for _, m := range examples {
		var again []byte
		if string(m[1]) == "call" {
			c, err := DecodeCall(m[2])
			if err != nil {
				t.Fatal(err)
			}
			again = EncodeCall(c)
		} else {
			r, err := DecodeReply(m[2])
			if err != nil {
				t.Fatal(err)
			}
			again = EncodeReply(r)
		}
		if !rawjson.Equal(again, m[2]) {
			t.Errorf("%s is decoded only in part, as %s", m[2], again)
		}
	}
	for _, reason := range Reasons() {
		if !strings.Contains(string(spec), "| `"+reason+"` |") {
			t.Errorf("the reason %s is missing", reason)
		}
	}
	if len(examples) != 2 {
		t.Errorf("%d examples", len(examples))
	}
}

// refusal is a text that is not valid, and what the error has.
type refusal struct{ text, want string }

func expectRefused[T any](t *testing.T, decode func([]byte) (T, error), cases []refusal) {
	t.Helper()
	for _, c := range cases {
		if _, err := decode([]byte(c.text)); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%.80s\ngot  %v\nwant %s", c.text, err, c.want)
		}
	}
}

func TestInvalidHostIsRefused(t *testing.T) {
	const notHost = ` is not a host in lower case, such as api.example.com or api.example.com:8443`
	expectRefused(t, Decode, []refusal{
		{`{}`, `expected an array`},
		{`[{}]`, `[0].host: is required: a name or an address, with a port unless that is the default of the scheme, such as api.example.com; or *`},
		{`[{"host":"API.example.com"}]`, `[0].host: "API.example.com"` + notHost},
		{`[{"host":"https://a"}]`, `[0].host: "https://a"` + notHost},
		{`[{"host":"a.*"}]`, `[0].host: "a.*"` + notHost},
		{`[{"host":"*."}]`, `[0].host: "*."` + notHost},
		{`[{"host":"u@a"}]`, `[0].host: "u@a"` + notHost},
		{`[{"host":"` + strings.Repeat("a", MaxHost+1) + `"}]`, `[0].host: 261 bytes, the limit is 260`},
		{`[{"host":"a","methods":["get"]}]`, `[0].methods[0]: "get" is not a method in upper case, such as PUT`},
		{`[{"host":"a","methods":[""]}]`, `[0].methods[0]: is empty: name a method, such as PUT`},
		{`[{"host":"a","methods":["CONNECT"]}]`, `[0].methods[0]: CONNECT is not supported: use GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS`},
		{`[{"host":"a","methods":["PUT","PUT"]}]`, `[0].methods[1]: "PUT" is given twice`},
		{`[{"host":"a"},{"host":"a"}]`, `[1].host: "a" is given twice`},
		{`[{"host":"a","port":1}]`, `[0]: unknown field "port"`},
	})
	for _, entries := range []string{
		`{"host":"*"}`, `{"host":"*.example.com:8443"}`, `{"host":"[fd00::7]:80"}`, `{"host":"10.0.0.7"}`, ``,
	} {
		if _, err := Decode([]byte("[" + entries + "]")); err != nil {
			t.Errorf("%s: %v", entries, err)
		}
	}
}

// TestNullFieldEqualsAbsentField of what a guest and a host write.
func TestNullFieldEqualsAbsentField(t *testing.T) {
	for _, field := range []string{"method", "headers", "timeout"} {
		c, err := DecodeCall([]byte(`{"url":"https://a","` + field + `":null}`))
		if want := (&Call{URL: "https://a"}); err != nil || !reflect.DeepEqual(c, want) {
			t.Errorf("%s: %+v, %v", field, c, err)
		}
	}
	for _, field := range []string{"status", "url", "headers", "error"} {
		if r, err := DecodeReply([]byte(`{"` + field + `":null}`)); err != nil || !reflect.DeepEqual(r, &Reply{}) {
			t.Errorf("%s: %+v, %v", field, r, err)
		}
	}
	if all, err := Decode([]byte(`[{"host":"a","methods":null}]`)); err != nil || !reflect.DeepEqual(all, []Host{{Host: "a"}}) {
		t.Errorf("%+v, %v", all, err)
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

func TestInvalidCallIsRefused(t *testing.T) {
	const ok = `{"url":"https://a"}`
	expectRefused(t, DecodeCall, []refusal{
		{``, `the text ends where an object is expected (offset 0)`},
		{"\x00body", `the text ends where an object is expected (offset 0)`},
		{`{}`, `url: is required, such as https://api.example.com/`},
		{`{"url":"https://a","body":"b"}`, `unknown field "body" (offset 26)`},
		{`{"url":"https://a","method":"put"}`, `method: "put" is not a method in upper case, such as PUT`},
		{`{"url":"https://a","method":"TRACE"}`, `method: TRACE is not supported: use GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS`},
		{`{"url":"https://a","method":"` + strings.Repeat("A", MaxMethod+1) + `"}`, `method: 33 bytes, the limit is 32`},
		{`{"url":"` + strings.Repeat("a", MaxURL+1) + `"}`, `url: 8193 bytes, the limit is 8192`},
		{`{"url":"https://a","headers":[{"name":"a b"}]}`, `headers[0].name: "a b" is not the name of a header`},
		{`{"url":"https://a","headers":[{}]}`, `headers[0].name: "" is not the name of a header`},
		{`{"url":"https://a","headers":[{"name":"A","value":"b\r\nSecret: c"}]}`, `headers[0].value: of A has a control character`},
		{`{"url":"https://a","headers":[{"name":"A","value":"` + strings.Repeat("v", MaxHeader+1) + `"}]}`, `headers[0].value: 16385 bytes, the limit is 16384`},
		{`{"url":"https://a","timeout":-1}`, `timeout: must not be negative, is -1 (offset 31)`},
		{ok + "\x00" + strings.Repeat("b", MaxBody+1), `body: 1048577 bytes, the limit is 1048576`},
		{`{"url":"` + strings.Repeat("a", abi.MaxCall) + `"}`, `longer than 65536 bytes (offset 65536)`},
	})
}

// TestBodyFollowsTheText: it may be any bytes, as many as are allowed.
func TestBodyFollowsTheText(t *testing.T) {
	for _, body := range []string{"", "a", "\x00", "\xff\x00{}", strings.Repeat("b", MaxBody)} {
		call := &Call{URL: "https://a", Body: []byte(body)}
		got, err := DecodeCall(EncodeCall(call))
		if err != nil || got.URL != call.URL || !bytes.Equal(got.Body, call.Body) {
			t.Errorf("a body of %d bytes has become %d bytes of %+v, %v", len(body), len(got.Body), got, err)
		}
		reply, err := DecodeReply(EncodeReply(&Reply{Status: 204, Body: []byte(body)}))
		if err != nil || reply.Status != 204 || !bytes.Equal(reply.Body, call.Body) {
			t.Errorf("the body of a reply of %d bytes has become %+v, %v", len(body), reply, err)
		}
	}
}

func TestReplyIgnoresUnknownFields(t *testing.T) {
	r, err := DecodeReply([]byte(`{"new":[1],"status":301,"error":{"reason":"Later","new":1}}`))
	if want := (&Reply{Status: 301, Error: &abi.Failure{Reason: "Later"}}); err != nil || !reflect.DeepEqual(r, want) {
		t.Errorf("got %+v, %v", r, err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(EncodeCall(fullCall()))
	f.Add(EncodeReply(fullReply()))
	f.Add([]byte("{\"url\":\"https://a\"}\x00body\x00"))
	f.Add(Encode([]Host{{Host: "a", Methods: []string{"PUT"}}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		if c, err := DecodeCall(data); err == nil {
			if again, err := DecodeCall(EncodeCall(c)); err != nil || !bytes.Equal(EncodeCall(again), EncodeCall(c)) {
				t.Errorf("%+v, %v", again, err)
			}
		}
		if r, err := DecodeReply(data); err == nil {
			if again, err := DecodeReply(EncodeReply(r)); err != nil || !bytes.Equal(EncodeReply(again), EncodeReply(r)) {
				t.Errorf("%+v, %v", again, err)
			}
		}
		if all, err := Decode(data); err == nil {
			if again, err := Decode(Encode(all)); err != nil || !bytes.Equal(Encode(again), Encode(all)) {
				t.Errorf("%+v, %v", again, err)
			}
		}
	})
}
