package receives

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	contract "github.com/thole-dev/thole/abi/receives"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/object"
)

func TestAnEventMakesTheObjectOfItsSubjectRunWithIt(t *testing.T) {
	for name, p := range map[string]post{
		"structured": {header: []string{"Content-Type: " + structured + "; charset=UTF-8"}, body: ce("data", `{"n":12345678901234567890}`, "myext", `"x"`)},
		"binary": {
			header: []string{"Content-Type: application/json", "ce-specversion: 1.0", "ce-id: 1", "ce-source: /test", "ce-type: " + started1, "ce-subject: a/shop", "ce-myext: x"},
			body:   `{"n":12345678901234567890}`,
		},
		"batch": {header: []string{"Content-Type: " + batch}, body: "[" + ce("data", `{"n":12345678901234567890}`, "myext", `"x"`) + "]"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			p.token = "good-by-name"
			header, text := w.expect(http.StatusAccepted, p)
			if text != "{\"objects\":1}\n" || header.Get("Content-Type") != "application/json" {
				t.Errorf("%q, %v", text, header)
			}
			w.expectSignalled(map[string]int{"labs a/shop": 1})
			var got map[string]any
			signal := w.labs.signals[shopOfA][0]
			if err := json.Unmarshal([]byte(signal), &got); err != nil || !strings.Contains(signal, "12345678901234567890") {
				t.Fatalf("%v in %s", err, signal)
			}
			for attribute, want := range map[string]string{"specversion": "1.0", "id": "1", "source": "/test", "type": started1, "subject": "a/shop", "myext": "x"} {
				if got[attribute] != want {
					t.Errorf("%s is %v in %s", attribute, got[attribute], signal)
				}
			}
			if w.counted["lab 202"] != 1 || len(w.counted) != 1 {
				t.Errorf("counted are %v", w.counted)
			}
		})
	}
}

func TestDataOfEveryTypeArrives(t *testing.T) {
	for name, test := range map[string]struct {
		contentType, body string
		want              string // a part of the event
	}{
		"none":         {"", "", `"subject":"a/shop"`},
		"kind of JSON": {"application/vnd.x+json", `[1]`, `"data":[1]`},
		"text":         {"text/plain", `"a"` + "\n", `"data":"\"a\"\n"`},
		"binary":       {"application/octet-stream", "\xff\x00", `"data_base64":"/wA="`},
		"untyped":      {"", `{"a":1}`, `"data":{"a":1}`},
		"a markup":     {"text/html", "</script>\u2028", `script`},
		"JSON string":  {"application/json", `"x"`, `"data":"x"`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			header := []string{"ce-specversion: 1.0", "ce-id: 1", "ce-source: /test", "ce-type: " + started1, "ce-subject: a/shop"}
			if test.contentType != "" {
				header = append(header, "Content-Type: "+test.contentType)
			}
			w.expect(http.StatusAccepted, post{token: "good-all", header: header, body: test.body})
			if got := strings.Join(w.labs.signals[shopOfA], ""); !strings.Contains(got, test.want) || !json.Valid([]byte(got)) {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

// Section 3.1.3.2 of the HTTP binding of CloudEvents has how attributes are encoded.
func TestAttributesInHeadersAreDecoded(t *testing.T) {
	for value, want := range map[string]string{
		"Euro%20%E2%82%AC%20%F0%9F%98%80": "Euro € 😀",
		"a%2520b":                         "a%20b", // once
		"100%":                            "100%",  // as a sender writes it that does not encode
		`"a \"b\" \\ %41"`:                `a "b" \ A`,
		`"`:                               `"`,
		"a+b":                             "a+b",
		"%C3":                             "",
		"%00":                             "\x00",
	} {
		t.Run(value, func(t *testing.T) {
			w := newWorld(t, nil)
			p := post{token: "good-all", header: []string{"ce-specversion: 1.0", "ce-id: 1", "ce-source: /test", "ce-type: " + strings.ReplaceAll(started1, "a", "%61"), "ce-subject: a%2Fshop", "ce-myext: " + value}}
			if want == "" { // it is not UTF-8
				w.expect(http.StatusBadRequest, p)
				return
			}
			w.expect(http.StatusAccepted, p)
			var got map[string]string
			if err := json.Unmarshal([]byte(strings.Join(w.labs.signals[shopOfA], "")), &got); err != nil || got["myext"] != want {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

func TestEventsInStructuredModeAreTakenInAnyOrderAndForm(t *testing.T) {
	for name, body := range map[string]string{
		"data first":            `{"data_base64":"\/wA=","type":"` + started1 + `","subject":"a/shop","id":"1","source":"/s","specversion":"1.0"}`,
		"data of a content":     `{"data":"x","type":"` + started1 + `","subject":"a/shop","id":"1","source":"/s","specversion":"1.0","datacontenttype":"text/plain"}`,
		"null attributes":       `{"dataschema":null,"time":null,"x":null,"type":"` + started1 + `","subject":"a/shop","id":"1","source":"/s","specversion":"1.0"}`,
		"escaped":               `{"type":"com.example.st\u0061rted","subject":"a\/shop","id":"1","source":"/s","specversion":"1.0"}`,
		"JSON of a kind":        ce("datacontenttype", `"Application/vnd.x+JSON"`, "data", `{"a":1}`),
		"a schema":              `{"type":"any","dataschema":"` + schema1 + `","subject":"a/shop","id":"1","source":"/s","specversion":"1.0","data":null}`,
		"whitespace":            " \n" + ce() + "\r\n",
		"twice in its own data": ce("data", `{"a":1,"a":2}`),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.expect(http.StatusAccepted, post{token: "good-all", header: []string{"Content-Type: " + structured}, body: body})
			w.expectSignalled(map[string]int{"labs a/shop": 1})
		})
	}
}

func TestAnEventOfABatchRunsEveryObject(t *testing.T) {
	w := newWorld(t, nil)
	_, text := w.expect(http.StatusAccepted, post{token: "good-all", header: []string{"Content-Type: " + batch}, body: "[" + strings.Join([]string{
		ce(), ce("id", `"2"`), ce("subject", `"b/shop"`), ce("type", `"`+drained+`"`, "subject", `"node-1"`), ce("type", `"`+both+`"`),
	}, ",") + "]"})
	if text != "{\"objects\":6}\n" {
		t.Error(text)
	}
	w.expectSignalled(map[string]int{"labs a/shop": 3, "labs b/shop": 1, "nodes node-1": 1, "others a/shop": 1})
	if w.counted["lab 202"] != 5 || w.counted["other 202"] != 1 {
		t.Errorf("counted are %v", w.counted)
	}
}

func TestAnIndexFindsTheObjectsThatTheCallerMayRun(t *testing.T) {
	for _, test := range []struct {
		user, ids string
		want      map[string]int
	}{
		{"all", `"c1"`, map[string]int{"labs a/shop": 1, "labs a/cafe": 1, "labs b/shop": 1}},
		{"all", `"c2","c3","c2","unknown"`, map[string]int{"labs a/cafe": 1, "labs b/shop": 1}},
		{"in-a", `"c1"`, map[string]int{"labs a/shop": 1, "labs a/cafe": 1}},
		{"by-name", `"c1"`, map[string]int{"labs a/shop": 1}},
		{"by-name", `"c3"`, nil},
		{"nobody", `"c1"`, nil},
		{"all", `"unknown"`, nil},
		{"all", ``, nil},
		{"all", `{"c1":"c1"},["c1"],null`, nil},
	} {
		t.Run(test.user+" "+test.ids, func(t *testing.T) {
			w := newWorld(t, nil)
			want := http.StatusAccepted
			if test.want == nil {
				want, test.want = http.StatusNotFound, map[string]int{}
			}
			w.expect(want, post{token: "good-" + test.user, header: []string{"Content-Type: " + structured}, body: ce("type", `"`+stopped1+`"`, "subject", "", "data", `{"ids":[`+test.ids+`]}`)})
			w.expectSignalled(test.want)
		})
	}
}

// Who may not run an object cannot find out whether it is there.
func TestAnAnswerDoesNotTellWhetherAnObjectIsThere(t *testing.T) {
	w := newWorld(t, nil)
	for _, typ := range []string{started1, both} {
		var answers []string
		for _, subject := range []string{"b/shop", "b/nothing"} {
			status, _, text := w.send(post{token: "good-in-a", header: []string{"Content-Type: " + structured}, body: ce("subject", `"`+subject+`"`, "type", `"`+typ+`"`)})
			answers = append(answers, fmt.Sprint(status, text))
		}
		if answers[0] != answers[1] || !strings.HasPrefix(answers[0], "403") {
			t.Errorf("%s: %q", typ, answers)
		}
	}
	byIndex := func(id string) string {
		status, _, text := w.send(post{token: "good-nobody", header: []string{"Content-Type: " + structured}, body: ce("type", `"`+stopped1+`"`, "data", `{"ids":["`+id+`"]}`)})
		return fmt.Sprint(status, text)
	}
	if there, not := byIndex("c1"), byIndex("no"); there != not {
		t.Errorf("%q and %q", there, not)
	}
	w.expectSignalled(map[string]int{})
}

func TestAnEventForSeveralPluginsCanBeSentToOne(t *testing.T) {
	w := newWorld(t, nil)
	w.others.away.Store(true)
	event := post{token: "good-all", header: []string{"Content-Type: " + structured}, body: ce("type", `"`+both+`"`)}
	header, _ := w.expect(http.StatusServiceUnavailable, event)
	if header.Get("Connection") != "close" && header.Get("Retry-After") != "1" {
		t.Error(header)
	}
	event.path = "/events/lab"
	w.expect(http.StatusAccepted, event)
	w.expectSignalled(map[string]int{"labs a/shop": 1})
	event.path = "/events/other"
	w.expect(http.StatusServiceUnavailable, event)
	event.path = "/events/unknown"
	w.expect(http.StatusNotFound, event)
	w.expectSignalled(map[string]int{"labs a/shop": 1})
}

func TestTheRateOfAPluginIsAllOrNothingForABatch(t *testing.T) {
	w := newWorld(t, func(_ *Config, w *world) { w.receivers[2].Rate = NewRate(1) })
	send := func(want, n int, typ string) http.Header {
		t.Helper()
		events := make([]string, n)
		for i := range events {
			events[i] = ce("type", `"`+typ+`"`)
		}
		header, _ := w.expect(want, post{token: "good-all", header: []string{"Content-Type: " + batch}, body: "[" + strings.Join(events, ",") + "]"})
		return header
	}
	send(http.StatusAccepted, 256, both)
	before := fmt.Sprint(w.signalled())
	if header := send(http.StatusTooManyRequests, 3, both); header.Get("Retry-After") != "3" {
		t.Errorf("Retry-After is %q", header.Get("Retry-After"))
	}
	if got := fmt.Sprint(w.signalled()); got != before {
		t.Errorf("signals are %s, were %s", got, before)
	}
	w.clock.SetTime(w.clock.Now().Add(3 * time.Second))
	send(http.StatusAccepted, 3, both)
	send(http.StatusTooManyRequests, 1, both)
	for range 3 { // what the other plugin has refused was not taken from this one: 1000 less 259
		send(http.StatusAccepted, 247, started1)
	}
	if w.counted["other 429"] != 2 || w.counted["other 202"] != 259 {
		t.Errorf("counted are %v", w.counted)
	}
}

func TestTokensAreRememberedForAMomentAndAskedForOnce(t *testing.T) {
	w := newWorld(t, nil)
	good := post{token: "good-all", header: []string{"Content-Type: " + structured}, body: ce()}
	bad := post{token: "garbage", header: good.header, body: ce()}
	var sending sync.WaitGroup
	for range 8 {
		sending.Go(func() { w.expect(http.StatusAccepted, good) })
	}
	sending.Wait()
	if w.asked["token"] != 1 || w.asked["access"] != 1 {
		t.Errorf("asked was %v", w.asked)
	}
	for range 3 {
		w.expect(http.StatusUnauthorized, bad)
	}
	w.clock.SetTime(w.clock.Now().Add(2 * time.Second))
	w.expect(http.StatusUnauthorized, bad)
	w.expect(http.StatusAccepted, good)
	if w.asked["token"] != 3 {
		t.Errorf("asked was %v", w.asked)
	}
	w.clock.SetTime(w.clock.Now().Add(10 * time.Second))
	w.expect(http.StatusAccepted, good)
	if w.asked["token"] != 4 {
		t.Errorf("asked was %v", w.asked)
	}
}

func TestNothingIsTakenWhileTheAPIServerDoesNotAnswer(t *testing.T) {
	w := newWorld(t, nil)
	good := post{token: "good-all", header: []string{"Content-Type: " + structured}, body: ce()}
	w.away = true
	header, _ := w.expect(http.StatusServiceUnavailable, good)
	if header.Get("Retry-After") != "1" {
		t.Error(header)
	}
	w.away = false
	w.expect(http.StatusAccepted, good)
	w.away = true
	w.expect(http.StatusAccepted, good) // what is remembered counts
	good.token = "good-in-a"
	w.expect(http.StatusServiceUnavailable, good)
	w.expectSignalled(map[string]int{"labs a/shop": 2})
	if !strings.Contains(w.log.String(), "connection refused") {
		t.Errorf("the log is %s", w.log)
	}
}

// sendGarbage sends tokens that are not known until none is reviewed any more.
func (w *world) sendGarbage() {
	w.Helper()
	for i := range 1000 {
		status, _, _ := w.send(post{token: fmt.Sprintf("garbage-%d-%d", w.clock.Now().UnixNano(), i), header: []string{"Content-Type: " + structured}, body: ce()})
		if status == http.StatusServiceUnavailable {
			return
		}
	}
	w.Error("any number of tokens that are not known is reviewed")
}

// Garbage that is sent again and again does not keep those out who were let in before.
func TestStrangersDoNotKeepCallersOut(t *testing.T) {
	w := newWorld(t, nil)
	good := post{token: "good-all", header: []string{"Content-Type: " + structured}, body: ce()}
	w.expect(http.StatusAccepted, good)
	w.sendGarbage()
	w.clock.SetTime(w.clock.Now().Add(10 * time.Second))
	w.sendGarbage()
	w.expect(http.StatusAccepted, good)
}

func TestRequestsAtOnceAreBoundedForACallerAndForAll(t *testing.T) {
	w := newWorld(t, nil)
	release := make(chan struct{})
	var sending sync.WaitGroup
	hold := func(user string, n int) {
		for range n {
			sending.Go(func() {
				w.send(post{token: "good-" + user, header: []string{"Content-Type: " + structured}, reader: func() io.Reader { return &waiting{release: release, rest: strings.NewReader(ce())} }})
			})
		}
		await.Until(t, "they are in", func() bool {
			w.room.mu.Lock()
			defer w.room.mu.Unlock()
			return w.room.byCaller[user] == n
		})
	}
	hold("all", maxOfCaller)
	good := post{token: "good-all", header: []string{"Content-Type: " + structured}, body: ce()}
	w.expect(http.StatusServiceUnavailable, good)
	good.token = "good-in-a"
	w.expect(http.StatusAccepted, good)
	for i := range maxRequests/maxOfCaller - 1 {
		hold(fmt.Sprint("u", i), maxOfCaller)
	}
	w.expect(http.StatusServiceUnavailable, good)
	close(release)
	sending.Wait()
	w.expect(http.StatusAccepted, good)
	if len(w.room.byCaller) != 0 || w.room.requests != 0 {
		t.Errorf("%d requests are counted", w.room.requests)
	}
}

// waiting is a body that begins to come when it is released.
type waiting struct {
	release chan struct{}
	rest    io.Reader
}

func (b *waiting) Read(p []byte) (int, error) {
	<-b.release
	return b.rest.Read(p)
}

func TestPluginsThatAreBeingStartedAreWaitedFor(t *testing.T) {
	good := post{token: "good-all", header: []string{"Content-Type: " + structured}, body: ce("type", `"unknown"`)}
	w := newWorld(t, nil)
	w.expect(http.StatusNotFound, good)
	w.starting = true
	w.expect(http.StatusServiceUnavailable, good)
	w.receivers = nil
	w.expect(http.StatusServiceUnavailable, good)
	w.starting = false
	w.expect(http.StatusNotFound, good)
	if w.asked["token"] != 1 {
		t.Errorf("asked was %v: who is not received from is not asked for", w.asked)
	}
}

func TestAnObjectThatGoesMeanwhileIsNotCounted(t *testing.T) {
	w := newWorld(t, nil)
	receivers := w.receivers
	receivers[0].Controller = goingController{w.labs}
	if _, text := w.expect(http.StatusAccepted, post{token: "good-all", header: []string{"Content-Type: " + structured}, body: ce()}); text != "{\"objects\":0}\n" {
		t.Error(text)
	}
}

type goingController struct{ *controller }

func (goingController) Signal(object.Key, ...[]byte) bool { return false }

func TestLogsHaveNeitherTokensNorEvents(t *testing.T) {
	w := newWorld(t, nil)
	began := time.Now()
	for range 2 * logsAtOnce {
		w.expect(http.StatusUnauthorized, post{token: "sesame", header: []string{"Content-Type: " + structured}, body: ce("data", `"secret"`)})
		w.expect(http.StatusForbidden, post{token: "good-nobody", header: []string{"Content-Type: " + structured}, body: ce("data", `"secret"`)})
		w.expect(http.StatusBadRequest, post{token: "good-nobody", header: []string{"Content-Type: " + structured}, body: ce("data", `"secret"`, "id", `"secret`)})
	}
	log := w.log.String()
	for _, secret := range []string{"sesame", "good-nobody", "secret", "a/shop"} {
		if strings.Contains(log, secret) {
			t.Errorf("%s is in the log:\n%s", secret, log)
		}
	}
	if lines := strings.Count(log, "\n"); lines == 0 || lines > logsAtOnce+1+int(time.Since(began)/time.Second) || !strings.Contains(log, "user=nobody") {
		t.Errorf("%d lines:\n%s", lines, log)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(0, []byte(ce()), "application/json", "1.0")
	f.Add(1, []byte(ce("data_base64", "5")), "", "")
	f.Add(1, []byte(ce("", "1")), "", "")
	f.Add(2, []byte("["+ce()+","+ce("data", "{}")+"]"), "", "")
	f.Fuzz(func(t *testing.T, m int, body []byte, contentType, version string) {
		r := &http.Request{Header: http.Header{"Content-Type": {contentType}, "Ce-Specversion": {version}, "Ce-Id": {"1"}, "Ce-Source": {"/s"}, "Ce-Type": {"t"}}}
		events, refused := decode(r, mode(min(max(m, 0), 2)), body)
		if (refused == nil) != (len(events) > 0) {
			t.Fatalf("%v and %v", events, refused)
		}
		for _, e := range events {
			if !json.Valid(e.json) || len(e.json) > contract.MaxEvent || e.Type() == "" || e.ID() == "" || e.Source() == "" {
				t.Errorf("%s", e.json)
			}
			again, refused := decode(r, structuredMode, e.json)
			if refused != nil || !bytes.Equal(again[0].json, e.json) {
				t.Errorf("%s is read as %v", e.json, refused)
			}
		}
	})
}

func TestObjectsOfAnEventAndOfABatchAreBounded(t *testing.T) {
	w := newWorld(t, nil)
	many := func(n int) {
		w.labs.objects = map[object.Key][]string{}
		for i := range n {
			w.labs.objects[object.Key{Namespace: "a", Name: fmt.Sprint("o", i)}] = []string{"many"}
		}
	}
	event := ce("type", `"`+stopped1+`"`, "data", `{"ids":["many"]}`)
	send := func(want, n int) {
		t.Helper()
		w.expect(want, post{token: "good-all", header: []string{"Content-Type: " + batch}, body: "[" + strings.TrimSuffix(strings.Repeat(event+",", n), ",") + "]"})
	}
	many(maxObjects + 1)
	send(http.StatusRequestEntityTooLarge, 1)
	many(maxObjects)
	send(http.StatusRequestEntityTooLarge, maxRequestObjects/maxObjects+1)
	w.expectSignalled(map[string]int{})
	send(http.StatusAccepted, maxRequestObjects/maxObjects)
}

// By HTTP/2 the time for a body is that of its own stream, and what is refused ends that alone.
func TestABodyHasItsTime(t *testing.T) {
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(protocol, func(t *testing.T) {
			w := newWorld(t, nil)
			short := w.Config
			short.bodyTimeout = 200 * time.Millisecond
			mux := http.NewServeMux()
			mux.Handle("/events", w.Handler)
			mux.Handle("/short", New(short))
			server := httptest.NewUnstartedServer(mux)
			server.EnableHTTP2 = protocol == "HTTP/2.0"
			server.StartTLS()
			defer server.Close()
			w.url, w.client = server.URL, server.Client()
			json := []string{"Content-Type: " + structured}
			good := post{token: "good-all", header: json, body: ce()}
			w.expect(http.StatusAccepted, good)
			w.expect(http.StatusRequestTimeout, post{path: "/short", token: "good-all", header: json, reader: silent})
			w.expect(http.StatusRequestTimeout, post{path: "/short", token: "good-all", header: json, reader: func() io.Reader { return trickling{} }})
			w.expect(http.StatusUnauthorized, post{header: json, reader: silent})
			w.expect(http.StatusRequestEntityTooLarge, post{token: "good-all", header: json, reader: func() io.Reader { return endless{} }})
			w.expect(http.StatusAccepted, good)
			w.expectSignalled(map[string]int{"labs a/shop": 2})
		})
	}
}
