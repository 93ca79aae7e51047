package devloop

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
)

// record is one line of the host's log.
type record struct {
	at     time.Time
	module string // of the host: "dispatch.guest"
	level  hclog.Level
	text   string
	fields []field // in their order
}

type field struct {
	name  string
	value any
}

// field returns the text of a field, "" if there is none.
func (r *record) field(name string) string {
	for _, f := range r.fields {
		if f.name == name {
			return fmt.Sprint(f.value)
		}
	}
	return ""
}

// number returns a field that is one, else 0.
func (r *record) number(name string) int {
	for _, f := range r.fields {
		if n, ok := f.value.(int); ok && f.name == name {
			return n
		}
	}
	return 0
}

// recorder takes what a host logs, as values. It never keeps the host waiting:
// what the session is too slow for is counted.
type recorder struct {
	records chan *record
	missed  atomic.Int64
}

var _ hclog.SinkAdapter = (*recorder)(nil)

const manyRecords = 4096 // that may wait to be told

func newRecorder() *recorder { return &recorder{records: make(chan *record, manyRecords)} }

// rootModule is the name of the host's logger.
const rootModule = "thole"

// Accept implements [hclog.SinkAdapter].
func (r *recorder) Accept(name string, level hclog.Level, text string, args ...any) {
	rec := &record{at: time.Now(), module: strings.TrimPrefix(name, rootModule+"."), level: level, text: text}
	for i := 0; i+1 < len(args); i += 2 {
		rec.fields = append(rec.fields, field{fmt.Sprint(args[i]), args[i+1]})
	}
	if !interesting(rec) {
		return
	}
	select {
	case r.records <- rec:
	default:
		r.missed.Add(1)
	}
}
