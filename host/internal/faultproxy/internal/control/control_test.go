package control

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/host/internal/faultproxy/internal/proxy"
	"github.com/thole-dev/thole/host/internal/faultproxy/internal/request"
)

// newControl returns a function that sends a request to the control interface of a
// proxy without an API server, and returns code and body.
func newControl(t *testing.T) (*proxy.Proxy, func(line, body string) string) {
	t.Helper()
	p, err := proxy.New(&rest.Config{Host: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	handler := New(p)
	return p, func(line, body string) string {
		method, path, _ := strings.Cut(line, " ")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body)))
		text, _ := io.ReadAll(w.Result().Body)
		return strings.TrimSpace(fmt.Sprint(w.Code, " ", string(text)))
	}
}

func TestRulesAreReplacedAndAdded(t *testing.T) {
	_, send := newControl(t)
	const one, two = `{"rule":"get pods lost","matched":0,"applied":0,"ended":false}`, `{"rule":"get pods cut","matched":0,"applied":0,"ended":false}`
	for _, step := range []struct{ line, body, want string }{
		{"GET /rules", "", "200 []"},
		{"PUT /rules", "# none\nget pods lost\n", "204"},
		{"POST /rules", "get pods cut", "204"},
		{"GET /rules", "", "200 [" + one + "," + two + "]"},
		{"POST /rules", "get pods hang\nget pods frob", `400 line 2: unknown fault "frob": want one of `},
		{"PUT /rules", "frob", `400 line 1: "frob" is not a rule`},
		{"PUT /rules", "list pods stale", "502 read the current resourceVersion for the fault stale: "},
		{"PUT /rules", strings.Repeat("#", maxBody+1), "400 http: request body too large"},
		{"GET /rules", "", "200 [" + one + "," + two + "]"},
		{"PUT /rules", "get pods cut", "204"},
		{"GET /rules", "", "200 [" + two + "]"},
		{"PUT /rules", "", "204"},
		{"GET /rules", "", "200 []"},
		{"DELETE /rules", "", "405 Method Not Allowed"},
	} {
		if got := send(step.line, step.body); !strings.HasPrefix(got, step.want) || strings.HasPrefix(step.want, "20") && got != step.want {
			t.Errorf("%s: %s, want %s", step.line, got, step.want)
		}
	}
}

func TestRequestsAreListedAndForgotten(t *testing.T) {
	p, send := newControl(t)
	if got := send("GET /requests", ""); got != "200 []" {
		t.Error(got)
	}
	e := p.Requests.Begin(request.Attributes{Verb: "get", Group: "g", Resource: "pods/status", Namespace: "n", Name: "x", UserAgent: "u"})
	e.Applied("one")
	e.Applied("two")
	e.Performed(http.StatusCreated)
	got := send("GET /requests", "")
	want := `200 [{"verb":"get","group":"g","resource":"pods/status","namespace":"n","name":"x","userAgent":"u",` +
		`"code":0,"serverCode":201,"created":true,"time":"`
	if !strings.HasPrefix(got, want) || !strings.HasSuffix(got, `,"rule":"one; two"}]`) {
		t.Errorf("%s\nwant %s", got, want)
	}
	if got := send("DELETE /requests", ""); got != "204" {
		t.Error(got)
	}
	e.End() // of a request that is forgotten
	if got := send("GET /requests", ""); got != "200 []" {
		t.Error(got)
	}
}

func TestProcessMustBeOneThatCanBeSignalled(t *testing.T) {
	_, send := newControl(t)
	for body, want := range map[string]string{
		"x":                      `400 "x" is not the id of a process: want a number`,
		"":                       `400 "" is not the id`,
		"0":                      "400 0 is not the id of a process that may be signalled",
		"-1":                     "400 -1 is not the id",
		"1":                      "400 1 is not the id",
		fmt.Sprint(os.Getpid()):  "400 ",
		"4194305":                "400 process 4194305 cannot be signalled",
		fmt.Sprint(os.Getppid()): "204",
	} {
		if got := send("PUT /process", body); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
}
