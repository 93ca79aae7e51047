package sdktest

import (
	"errors"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/http"
	"github.com/thole-dev/thole/abi/scans"
	"github.com/thole-dev/thole/sdk/internal/guest"
)

// scanner is a script with scans, whose result the test has set.
type scanner struct {
	*script
	scan func(q *scans.Request, host Host) (abi.Code, []byte, error)
}

func (s *scanner) Scan(request []byte, host Host) (abi.Code, []byte, error) {
	q, err := scans.DecodeRequest(request)
	if err != nil {
		return 0, nil, err
	}
	return s.scan(q, host)
}

func scanWorld(tb testing.TB) (*World, *scanner) {
	tb.Helper()
	s := &scanner{script: newScript()}
	s.controller.Sections = []abi.Section{{Name: scans.Name, Value: scans.Encode([]scans.Scan{{Name: "due", Interval: 1000}})}}
	return NewWith(tb, s), s
}

func TestAScanIsGivenItsRequest(t *testing.T) {
	w, s := scanWorld(t)
	w.Configure(map[string]int{"a": 1})
	seeds := map[[32]byte]bool{}
	s.scan = func(q *scans.Request, host Host) (abi.Code, []byte, error) {
		seeds[q.Seed] = true
		if q.Controller != "ctl" || q.Scan != "due" || !q.Now.Equal(w.Now()) || string(q.Config) != `{"a":1}` {
			t.Errorf("the request is %+v", q)
		}
		if _, code := host.HTTP(http.EncodeCall(&http.Call{URL: "https://example.com/"})); code != abi.CodeDenied {
			t.Errorf("http returns %d", code)
		}
		return abi.CodeOK, []byte("{}"), nil
	}
	w.Scan("due").ExpectObjects()
	if w.Scan("due").ExpectObjects(); len(seeds) != 2 {
		t.Errorf("seeds %v", seeds)
	}
}

func TestScansFailAsInAHost(t *testing.T) {
	w, s := scanWorld(t)
	w.createOne()
	for name, c := range map[string]struct {
		code   abi.Code
		text   string
		err    error
		class  abi.Class
		reason string
	}{
		"a code":          {abi.CodeStalled, `{"error":{"reason":"Wrong","message":"m"},"objects":[{"namespace":"ns","name":"one"}]}`, nil, abi.ClassStalled, "Wrong"},
		"without result":  {abi.CodeRetry, "", nil, abi.ClassRetry, ""},
		"an unknown code": {7, "{}", nil, abi.ClassRetry, ""},
		"no JSON":         {abi.CodeOK, "{", nil, abi.ClassABI, "InvalidResult"},
		"no return":       {0, "", errors.New("trap"), abi.ClassPanic, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s.scan = func(*scans.Request, Host) (abi.Code, []byte, error) { return c.code, []byte(c.text), c.err }
			if scan := w.Scan("due").ExpectFailure(c.class, c.reason); len(scan.Objects) != 0 {
				t.Errorf("it makes %q due", scan.Objects)
			}
		})
	}
	w.FailReads(child, abi.CodeUnavailable)
	s.scan = func(_ *scans.Request, host Host) (abi.Code, []byte, error) {
		host.Get(abi.EncodeGetCall(&abi.GetCall{Ref: child.Ref("ns", "c")}))
		return abi.CodeOK, []byte(`{"objects":[{"namespace":"ns","name":"one"}]}`), nil
	}
	if scan := w.Scan("due").ExpectFailure(abi.ClassRetry, "Unavailable"); len(scan.Objects) != 0 {
		t.Errorf("it makes %q due", scan.Objects)
	}
}

func TestExpectationsOfScansFail(t *testing.T) {
	w, s := scanWorld(t)
	w.createOne()
	s.scan = func(*scans.Request, Host) (abi.Code, []byte, error) {
		return abi.CodeOK, []byte(`{"objects":[{"namespace":"ns","name":"one","signal":1}]}`), nil
	}
	scan := w.Scan("due")
	for name, expect := range map[string]func(){
		"failure": func() { scan.ExpectFailure(abi.ClassRetry, "") },
		"objects": func() { scan.ExpectObjects() },
		"signals": func() { scan.ExpectSignals("2") },
		"log":     func() { scan.ExpectLog("x") },
	} {
		tb := &recorder{TB: t}
		scan.tb = tb
		if expect(); len(tb.failures) != 1 {
			t.Errorf("%s: the failures are %q, expected one", name, tb.failures)
		}
	}
}

func TestAScanOfNobodyIsRefusedByTheGuest(t *testing.T) {
	for _, request := range []string{`{"controller":"none","scan":"due"}`, "{"} {
		code, text := guest.Scan(nil, []byte(request))
		if out, err := scans.DecodeResult(text); err != nil || code != abi.CodeRetry || out.Error == nil || out.Error.Reason != "BadRequest" {
			t.Errorf("%s: returned %d %s", request, code, text)
		}
	}
}
