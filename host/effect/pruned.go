package effect

import (
	"strings"
	"sync"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
)

// pruned remembers, per kind, which members of status the server dropped
// because the schema does not have them. They are not sent again: each run
// would find them missing and write.
type pruned struct {
	mu    sync.Mutex
	paths map[abi.Kind]map[string]bool // JSON pointers (RFC 6901) below status
}

// inList is the pointer's part for all elements of the list of conditions.
const inList = "/conditions/-"

func (p *pruned) reset(kind abi.Kind) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.paths, kind)
}

// drop returns a patch of status without what was pruned, nil if nothing is
// left of it.
func (p *pruned) drop(kind abi.Kind, patch []byte) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.paths[kind]) == 0 {
		return patch, nil
	}
	return dropPaths(p.paths[kind], "", patch)
}

func dropPaths(paths map[string]bool, at string, patch []byte) ([]byte, error) {
	members, err := rawjson.Members(patch)
	if err != nil || len(members) == 0 {
		return patch, err
	}
	left := members[:0]
	for _, m := range members {
		inner := at + pointer(m.Name)
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

// condition returns those members of a condition that the schema has.
func (p *pruned) condition(kind abi.Kind, members []rawjson.Member) []rawjson.Member {
	p.mu.Lock()
	defer p.mu.Unlock()
	var left []rawjson.Member
	for _, m := range members {
		if !p.paths[kind][inList+pointer(m.Name)] {
			left = append(left, m)
		}
	}
	return left
}

// learn compares a patch of status with the status that it led to, and
// returns the pointers of what is missing there and was not known to be.
func (p *pruned) learn(kind abi.Kind, patch, status []byte) (found []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, path := range missing(nil, "", patch, status) {
		if p.paths[kind][path] {
			continue
		}
		if p.paths == nil {
			p.paths = map[abi.Kind]map[string]bool{}
		}
		if p.paths[kind] == nil {
			p.paths[kind] = map[string]bool{}
		}
		p.paths[kind][path] = true
		found = append(found, path)
	}
	return found
}

// missing appends the pointers of those members of a patch that the value
// does not have.
func missing(paths []string, at string, patch, value []byte) []string {
	members, err := rawjson.Members(patch)
	if err != nil {
		return paths
	}
	for _, m := range members {
		inner := at + pointer(m.Name)
		got, ok := rawjson.Lookup(value, m.Name)
		switch kind := rawjson.NewReader(m.Value).Kind(); {
		case !ok && substantial(m.Value):
			paths = append(paths, inner)
		case ok && kind == '{':
			paths = missing(paths, inner, m.Value, got)
		case ok && inner == "/conditions":
			paths = missingOfConditions(paths, m.Value, got)
		}
	}
	return paths
}

// missingOfConditions appends what the conditions in a list lack of those
// that were written.
func missingOfConditions(paths []string, wrote, list []byte) []string {
	for _, w := range conditionsIn(wrote) {
		for _, g := range conditionsIn(list) {
			if g.typ == w.typ {
				paths = missing(paths, inList, w.raw, g.raw)
			}
		}
	}
	return paths
}

func conditionsIn(list []byte) []listed {
	conditions, _ := readConditionList(list) // both were read or written before
	return conditions
}

// substantial says whether a value that is missing was dropped for want of a
// place: typed kinds leave out a member that is empty.
func substantial(value []byte) bool {
	switch strings.TrimSpace(string(value)) {
	case "null", "false", "0", `""`, "{}", "[]":
		return false
	}
	return true
}

var escapePointer = strings.NewReplacer("~", "~0", "/", "~1")

func pointer(name string) string { return "/" + escapePointer.Replace(name) }
