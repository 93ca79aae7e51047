package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// auditLog is the audit log of the API server, which is read as it grows.
type auditLog struct {
	path   string
	offset int64
}

// openAuditLog returns the log from now on.
func openAuditLog(t *testing.T, path string) *auditLog {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	return &auditLog{path, info.Size()}
}

// auditEvent is a line of the audit log, as far as the tests need it.
type auditEvent struct {
	Verb                     string
	UserAgent                string
	ImpersonatedUser         struct{ Username string }
	ObjectRef                struct{ Resource, Namespace, Name, Subresource string }
	ResponseStatus           struct{ Code int }
	RequestReceivedTimestamp time.Time
	StageTimestamp           time.Time
	ResponseObject           struct {
		Metadata struct{ ResourceVersion string }
		Data     struct{ Revision string }
		Status   json.RawMessage // of an error it is a text
	}
}

// auditWrite is a write that the API server has got.
type auditWrite struct {
	by              string // the replica; "" for others
	what            string // the resource with its subresource, and the name
	code            int
	received, ended time.Time
	version         uint64 // that the write has led to, 0 if it failed
	revision        int    // of a ConfigMap or of the status of an Echo
}

// next returns the writes of Echoes and ConfigMaps since the last call.
func (l *auditLog) next(t *testing.T) (all []auditWrite) {
	t.Helper()
	file, err := os.Open(l.path)
	must(t, err)
	defer file.Close()
	_, err = file.Seek(l.offset, io.SeekStart)
	must(t, err)
	text, err := io.ReadAll(file)
	must(t, err)
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	l.offset += int64(len(text))
	for line := range bytes.Lines(text) {
		var e auditEvent
		must(t, json.Unmarshal(line, &e))
		if e.ObjectRef.Resource == "echoes" || e.ObjectRef.Resource == "configmaps" {
			all = append(all, e.write())
		}
	}
	return all
}

func (e *auditEvent) write() auditWrite {
	w := auditWrite{
		what: strings.Trim(e.ObjectRef.Resource+"/"+e.ObjectRef.Subresource, "/") + " " + e.ObjectRef.Name,
		code: e.ResponseStatus.Code, received: e.RequestReceivedTimestamp, ended: e.StageTimestamp,
	}
	if strings.Contains(e.UserAgent, " plugin/") {
		w.by = e.ImpersonatedUser.Username
	}
	if w.code < http.StatusMultipleChoices {
		w.version, _ = strconv.ParseUint(e.ResponseObject.Metadata.ResourceVersion, 10, 64)
		w.revision, _ = strconv.Atoi(e.ResponseObject.Data.Revision)
		var status struct{ Revision int }
		if w.by != "" && json.Unmarshal(e.ResponseObject.Status, &status) == nil && status.Revision > 0 {
			w.revision = status.Revision
		}
	}
	return w
}

// turn is the time in which one replica wrote.
type turn struct {
	by           string
	began, ended time.Time // when its first write was got, and its last one in order was done
	writes       int
}

// history is who wrote, in the order in which the API server has stored the writes.
type history struct {
	turns []turn
	// late are writes of replicas whose turn was over, also those that failed or changed nothing.
	late []auditWrite
	// overwritten is what a replica has changed after its turn although the next one had changed
	// it before, and what has become older.
	overwritten []string
}

// judge finds out in which order replicas wrote. The writes begin when one of them leads.
func judge(all []auditWrite) (h history) {
	var changes, others []auditWrite // others have failed or have changed nothing
	slices.SortStableFunc(all, func(a, b auditWrite) int { return a.ended.Compare(b.ended) })
	seen := map[uint64]bool{}
	for _, w := range all {
		if w.version == 0 || seen[w.version] {
			others = append(others, w)
			continue
		}
		seen[w.version] = true
		changes = append(changes, w)
	}
	slices.SortFunc(changes, func(a, b auditWrite) int { return int(int64(a.version) - int64(b.version)) })
	last := map[string]auditWrite{} // by what was written
	for _, w := range changes {
		if w.by == "" {
			continue
		}
		late := h.add(w)
		if before := last[w.what]; w.revision < before.revision || late && before.by != w.by && before.by != "" {
			h.overwritten = append(h.overwritten, fmt.Sprintf("%s has changed %s from revision %d, by %s, to %d", w.by, w.what, before.revision, before.by, w.revision))
		}
		last[w.what] = w
	}
	for _, w := range others {
		if h.isLate(w) {
			h.late = append(h.late, w)
		}
	}
	return h
}

// add takes the next change, and reports whether it came late.
func (h *history) add(w auditWrite) (late bool) {
	last := len(h.turns) - 1
	switch i := slices.IndexFunc(h.turns, func(t turn) bool { return t.by == w.by }); {
	case i < 0:
		h.turns = append(h.turns, turn{w.by, w.received, w.ended, 1})
	case i < last:
		h.late = append(h.late, w)
		return true
	default:
		h.turns[last].ended, h.turns[last].writes = w.ended, h.turns[last].writes+1
	}
	return false
}

// isLate reports whether the API server has got a write of a replica after it has stored one of
// the next replica.
func (h *history) isLate(w auditWrite) bool {
	i := slices.IndexFunc(h.turns, func(t turn) bool { return t.by == w.by })
	return i >= 0 && i+1 < len(h.turns) && w.received.After(h.turns[i+1].began)
}

// problems returns what is wrong, if so many writes may come late.
func (h *history) problems(late int) []string {
	problems := h.overwritten
	if len(h.late) > late {
		problems = append(problems, fmt.Sprintf("%d writes of a replica came after those of the next one, want at most %d", len(h.late), late))
		for _, w := range h.late[:min(len(h.late), 10)] {
			problems = append(problems, fmt.Sprintf("%+v", w))
		}
	}
	return problems
}

// longestPause returns for how long nobody wrote between two turns, at most.
func (h *history) longestPause() (longest time.Duration) {
	for i := 1; i < len(h.turns); i++ {
		longest = max(longest, h.turns[i].began.Sub(h.turns[i-1].ended))
	}
	return longest
}

// String returns who wrote, and when.
func (h *history) String() string {
	var text []string
	for _, t := range h.turns {
		text = append(text, fmt.Sprintf("%s wrote %d times from %s to %s", t.by, t.writes, t.began.Format("05.000"), t.ended.Format("05.000")))
	}
	refused := 0
	for _, w := range h.late {
		if w.version == 0 {
			refused++
		}
	}
	return fmt.Sprintf("%s; %d writes came late, %d of them were refused", strings.Join(text, "; "), len(h.late), refused)
}
