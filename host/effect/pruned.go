package effect

import (
	"strings"
	"sync"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/outcome"
)

// This file records which fields of status the API server pruned, because the
// schema does not have them. They are found by comparing each patch with the
// reply to it, and are not sent again: every run would find them missing and
// write. Nothing announces that a schema has changed, so they are tried again after
// a while. Of the host's own fields the schema decides, if it is known: statusschema.go.

// prunedFields holds the pruned fields of every kind.
type prunedFields struct {
	mu    sync.Mutex
	kinds map[abi.Kind]*prunedOfKind
}

// prunedOfKind holds the pruned fields of one kind, as JSON pointers (RFC 6901)
// relative to status.
type prunedOfKind struct {
	epoch  int             // increases when the paths are forgotten
	since  time.Time       // when the first of paths was found
	paths  map[string]bool // what is not sent
	logged map[string]bool // paths of this or an earlier epoch that were logged
}

// prunedFor is how long a field is not sent again: as long as the result of
// discovery is cached.
const prunedFor = 10 * time.Minute

// eachCondition is the pointer that stands for every element of the list of
// conditions.
const eachCondition = "/conditions/-"

// of returns the pruned fields of a kind. p.mu must be held.
func (p *prunedFields) of(kind abi.Kind) *prunedOfKind {
	k := p.kinds[kind]
	if k == nil {
		k = &prunedOfKind{paths: map[string]bool{}, logged: map[string]bool{}}
		if p.kinds == nil {
			p.kinds = map[abi.Kind]*prunedOfKind{}
		}
		p.kinds[kind] = k
	}
	return k
}

// reset forgets the pruned fields of a kind, and what was logged about them.
func (p *prunedFields) reset(kind abi.Kind) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.of(kind)
	k.forget()
	clear(k.logged)
}

// forget starts a new epoch. What was logged stays, so that a field that is
// still pruned is not logged again.
func (k *prunedOfKind) forget() {
	k.epoch++
	clear(k.paths)
}

// epoch returns a number that changes when the pruned fields of a kind are
// forgotten. A patch that had no effect in an earlier epoch may have one now.
func (p *prunedFields) epoch(kind abi.Kind, now time.Time) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.of(kind)
	if len(k.paths) > 0 && now.Sub(k.since) >= prunedFor {
		k.forget()
	}
	return k.epoch
}

// drop returns a patch of the value at a path without its pruned fields, nil
// if none is left.
func (p *prunedFields) drop(kind abi.Kind, path string, patch []byte) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	paths := p.of(kind).paths
	if len(paths) == 0 {
		return patch, nil
	}
	return dropPaths(paths, path, patch)
}

// dropPaths is drop for the paths of one kind. Lists are not looked into: a merge
// patch replaces them as a whole, and conditions are filtered before they are
// put into a list.
func dropPaths(paths map[string]bool, path string, patch []byte) ([]byte, error) {
	members, err := rawjson.Members(patch)
	if err != nil || len(members) == 0 {
		return patch, err
	}
	left := members[:0]
	for _, m := range members {
		inner := path + pointer(m.Name)
		if paths[inner] {
			continue
		}
		if rawjson.NewReader(m.Value).Kind() == '{' {
			if m.Value, err = dropPaths(paths, inner, m.Value); err != nil {
				return nil, err
			}
		}
		if m.Value != nil {
			left = append(left, m)
		}
	}
	if len(left) == 0 {
		return nil, nil
	}
	w := rawjson.NewWriter(nil)
	w.Object(func() { writeMembers(w, left) })
	return w.Bytes(), nil
}

// learn compares a patch of status with the status that it led to. It returns
// the paths that are missing there and have not been logged.
func (p *prunedFields) learn(kind abi.Kind, patch, status []byte, now time.Time) (unlogged []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.of(kind)
	for _, path := range missing(nil, "", patch, status) {
		if len(k.paths) == 0 {
			k.since = now
		}
		k.paths[path] = true
		if !k.logged[path] {
			k.logged[path] = true
			unlogged = append(unlogged, path)
		}
	}
	return unlogged
}

// missing appends the paths of those members of a patch that the value at path
// does not have.
func missing(paths []string, path string, patch, value []byte) []string {
	members, err := rawjson.Members(patch)
	if err != nil {
		return paths
	}
	for _, m := range members {
		inner := path + pointer(m.Name)
		got, ok := rawjson.Lookup(value, m.Name)
		switch {
		case !ok && !isEmpty(m.Value):
			paths = append(paths, inner)
		case ok && rawjson.NewReader(m.Value).Kind() == '{':
			paths = missing(paths, inner, m.Value, got)
		case ok && inner == "/conditions":
			paths = missingOfConditions(paths, m.Value, got)
		}
	}
	return paths
}

// missingOfConditions appends the paths of members that conditions had when
// they were sent, and do not have in the reply. Both lists are valid JSON.
func missingOfConditions(paths []string, sent, reply []byte) []string {
	_ = outcome.EachCondition(sent, func(s abi.Condition, patch []byte) {
		_ = outcome.EachCondition(reply, func(r abi.Condition, value []byte) {
			if r.Type == s.Type {
				paths = missing(paths, eachCondition, patch, value)
			}
		})
	})
	return paths
}

// isEmpty reports whether a value may be missing in the reply although the
// schema has the field: typed kinds leave out members with empty values.
func isEmpty(value []byte) bool {
	switch strings.TrimSpace(string(value)) {
	case "null", "false", "0", `""`, "{}", "[]":
		return true
	}
	return false
}

var escapePointer = strings.NewReplacer("~", "~0", "/", "~1")

// pointer returns a member's name as one step of a JSON pointer.
func pointer(name string) string { return "/" + escapePointer.Replace(name) }
