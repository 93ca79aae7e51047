// Package journal records the requests that arrive at the proxy.
package journal

import (
	"net/http"
	"sync"
	"time"

	"github.com/thole-dev/thole/host/internal/faultproxy/internal/request"
)

// Record is a request and what became of it.
type Record struct {
	request.Attributes
	Code       int       `json:"code"`       // of the reply to the client; 0: none was sent
	ServerCode int       `json:"serverCode"` // of the server's reply; 0: there is none
	Created    bool      `json:"created"`    // the server created an object
	Time       time.Time `json:"time"`       // of its arrival
	Duration   int64     `json:"duration"`   // in milliseconds, until now while it is under way
	Rule       string    `json:"rule"`       // those that were applied to it, separated by "; "
}

// Journal is the list of requests since its start or the last [Journal.Clear].
type Journal struct {
	mu      sync.Mutex
	entries []*Entry
}

// Entry is a request that may be under way.
type Entry struct {
	journal *Journal

	// Guarded by the mutex of the journal.
	record Record
	end    time.Time // zero while it is under way
}

// Begin adds a request that has arrived.
func (j *Journal) Begin(a request.Attributes) *Entry {
	e := &Entry{journal: j, record: Record{Attributes: a, Time: time.Now()}}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = append(j.entries, e)
	return e
}

// Records returns the requests in the order of their arrival.
func (j *Journal) Records() []Record {
	j.mu.Lock()
	defer j.mu.Unlock()
	records := make([]Record, len(j.entries))
	for i, e := range j.entries {
		end := e.end
		if end.IsZero() {
			end = time.Now()
		}
		records[i] = e.record
		records[i].Duration = end.Sub(e.record.Time).Milliseconds()
	}
	return records
}

// Clear forgets all requests, also those that are under way.
func (j *Journal) Clear() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = nil
}

// Applied adds the text of a rule that was applied to the request.
func (e *Entry) Applied(rule string) {
	e.change(func() {
		if e.record.Rule != "" {
			rule = e.record.Rule + "; " + rule
		}
		e.record.Rule = rule
	})
}

// Performed records the code of the server.
func (e *Entry) Performed(code int) {
	e.change(func() { e.record.ServerCode, e.record.Created = code, code == http.StatusCreated })
}

// Answered records the code of a reply to the client, before the client can see it.
func (e *Entry) Answered(code int) { e.change(func() { e.record.Code = code }) }

// End records that nothing more happens to the request.
func (e *Entry) End() { e.change(func() { e.end = time.Now() }) }

func (e *Entry) change(f func()) {
	e.journal.mu.Lock()
	defer e.journal.mu.Unlock()
	f()
}
