package egress

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	contract "github.com/thole-dev/thole/abi/http"
)

// TestNothingIsSentThatMayNotBe: the function is called before each request of a call, and the first error
// ends the call.
func TestNothingIsSentThatMayNotBe(t *testing.T) {
	notLeading := errors.New("another replica leads")
	for _, test := range []struct {
		path string
		sent int // without an error
	}{{"/", 1}, {"/redirect", 2}, {"/unauthorized", 2}} {
		for refuse := range test.sent + 1 {
			t.Run(fmt.Sprint(test.path, " from request ", refuse+1), func(t *testing.T) {
				sent, asked, now := 0, 0, time.Now()
				secret := &rotating{token: "the-first-token"}
				server := serve(t, func(w http.ResponseWriter, r *http.Request) {
					sent++
					switch {
					case r.URL.Path == "/redirect":
						http.Redirect(w, r, "/", http.StatusFound)
					case r.URL.Path == "/unauthorized" && r.Header.Get("Authorization") != "Bearer the-second-token":
						secret.token, now = "the-second-token", now.Add(2*secretPause)
						w.WriteHeader(http.StatusUnauthorized)
					}
				})
				e := local(server)
				e.SecretRef = &SecretRef{Namespace: "n", Name: "s"}
				c := newClient(t, Config{Entries: Entries{e}, Secrets: secret.read, Now: func() time.Time { return now }})
				reply, err := c.Do(t.Context(), everything, &contract.Call{URL: server.URL + test.path}, most, func() error {
					if asked++; sent != asked-1 {
						t.Errorf("asked %d times, %d were sent", asked, sent)
					}
					if asked > refuse {
						return notLeading
					}
					return nil
				}, nil)
				if sent != refuse {
					t.Errorf("%d requests were sent, want %d", sent, refuse)
				}
				if refused := refuse < test.sent; refused && (err != notLeading || reply != nil) || !refused && (err != nil || reply.Status != 200) { //nolint:errorlint // it must be the same
					t.Errorf("%+v, %v", reply, err)
				}
			})
		}
	}
}

// TestLimitsAreWaitedForBeforeTheQuestion: the time of the waiting must not be between the answer and the
// request.
func TestLimitsAreWaitedForBeforeTheQuestion(t *testing.T) {
	server := serve(t, func(http.ResponseWriter, *http.Request) {})
	c := newClient(t, Config{Entries: Entries{local(server)}, AtOnce: 1})
	c.state.slots.tryEnter()
	reply, err := c.Do(t.Context(), everything, &contract.Call{URL: server.URL, Timeout: 20}, most, func() error {
		t.Error("asked before the request could be sent")
		return nil
	}, nil)
	wantFailure(t, reply, err, contract.Limited)
}

// TestRefusedProbeLeavesTheCircuitAsItWas: the next request is the probe, and the error is returned although
// the run has ended.
func TestRefusedProbeLeavesTheCircuitAsItWas(t *testing.T) {
	server := serve(t, func(http.ResponseWriter, *http.Request) {})
	now, refused := time.Now(), errors.New("refused")
	c := newClient(t, Config{Entries: Entries{local(server)}, Now: func() time.Time { return now }})
	for range circuitFailures {
		c.state.circuits.count(server.URL, failed(contract.Timeout, ""))
	}
	now = now.Add(firstPause)
	ctx, end := context.WithCancel(t.Context())
	_, err := c.Do(ctx, everything, &contract.Call{URL: server.URL}, most, func() error { end(); return refused }, nil)
	if err != refused { //nolint:errorlint // it must be the same
		t.Error(err)
	}
	c.mustGet(t, server.URL)
}
