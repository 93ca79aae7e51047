package effect

import (
	"strings"
	"sync"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
)

// pruned remembers, per kind, which members of status the server dropped
// because the schema does not have them. They are not sent again: each run
// would find them missing and write. The schema may change without anybody
// telling, so they are tried anew after a while.
type pruned struct {
	mu    sync.Mutex
	kinds map[abi.Kind]*gaps
}

// gaps is what the schema of a kind is known to lack.
type gaps struct {
	epoch   int             // how often it was learnt anew
	since   time.Time       // when the first of missing was found
	missing map[string]bool // JSON pointers (RFC 6901) below status
	told    map[string]bool // those of missing, in this epoch or an earlier one, that somebody was told of
}

// prunedFor is how long a path is not sent again: as long as what a kind is
// served as is believed.
const prunedFor = 10 * time.Minute

// inList is the pointer's part for all elements of the list of conditions.
const inList = "/conditions/-"

// of returns what is known of a kind. p.mu is held.
func (p *pruned) of(kind abi.Kind) *gaps {
	s := p.kinds[kind]
	if s == nil {
		s = &gaps{missing: map[string]bool{}, told: map[string]bool{}}
		if p.kinds == nil {
			p.kinds = map[abi.Kind]*gaps{}
		}
		p.kinds[kind] = s
	}
	return s
}

// reset forgets what is known of a kind, and who was told.
func (p *pruned) reset(kind abi.Kind) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.of(kind)
	s.forget()
	clear(s.told)
}

func (s *gaps) forget() {
	s.epoch++
	clear(s.missing)
}

// epoch tells what was learnt before the schema may have changed from what was
// learnt after.
func (p *pruned) epoch(kind abi.Kind, now time.Time) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.of(kind)
	if len(s.missing) > 0 && now.Sub(s.since) >= prunedFor {
		s.forget()
	}
	return s.epoch
}

// drop returns a patch of status without what was pruned, nil if nothing is
// left of it.
func (p *pruned) drop(kind abi.Kind, patch []byte) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	missing := p.of(kind).missing
	if len(missing) == 0 {
		return patch, nil
	}
	return dropPaths(missing, "", patch)
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
	missing := p.of(kind).missing
	var left []rawjson.Member
	for _, m := range members {
		if !missing[inList+pointer(m.Name)] {
			left = append(left, m)
		}
	}
	return left
}

// learn compares a patch of status with the status that it led to, and
// returns the pointers of what is missing there that nobody was told of.
func (p *pruned) learn(kind abi.Kind, patch, status []byte, now time.Time) (news []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.of(kind)
	for _, path := range missing(nil, "", patch, status) {
		if len(s.missing) == 0 {
			s.since = now
		}
		s.missing[path] = true
		if !s.told[path] {
			s.told[path] = true
			news = append(news, path)
		}
	}
	return news
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
