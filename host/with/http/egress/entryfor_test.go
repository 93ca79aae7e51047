package egress

import (
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	contract "github.com/thole-dev/thole/abi/http"
)

func TestEntryForAURLAllowsItAlone(t *testing.T) {
	for url, want := range map[string]string{
		"https://Events.Example.com:443/in?a=b": "{host: events.example.com, methods: [POST]}",
		"http://10.0.0.1:8080":                  "{host: '10.0.0.1:8080', scheme: http, methods: [POST]}",
		"https://[fd00::7]/":                    "{host: '[fd00::7]', methods: [POST]}",
	} {
		if e, err := EntryFor(url, "POST"); err != nil || e.String() != want || e.Problems(nil) != nil {
			t.Errorf("%s: %s, %v, want %s", url, e, err, want)
		}
	}
	for _, url := range []string{"", "example.com", "ftp://example.com", "https://", "https://*.example.com", "https://u:hunter2@example.com", "https://example.com:99999", "https://exa mple.com"} {
		if e, err := EntryFor(url, "POST"); err == nil || !reflect.DeepEqual(e, Entry{}) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %s, %v", url, e, err)
		}
	}
}

// Whoever makes pauses of its own is not kept from a host because of earlier failures.
func TestStateWithoutCircuitsSendsEveryRequest(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked.Add(1)
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(server.Close)
	c := newClient(t, Config{Entries: Entries{local(server)}, State: NewStateWithoutCircuits(), PerSecond: 1000})
	for range 3 * circuitFailures {
		reply, err := c.get(t, server.URL)
		if err != nil || reply.Error == nil || reply.Error.Reason == contract.CircuitOpen {
			t.Fatalf("%+v, %v", reply, err)
		}
	}
	if n := asked.Load(); n < 3*circuitFailures {
		t.Errorf("%d requests were sent", n)
	}
}
