package objects

import (
	"maps"
	"slices"
	"time"
)

// This file divides the room for indexes among the plugins.
//
// A plugin that has no more than its part of the room, if it is divided evenly among those
// that have an index or want one, always gets it and never loses it to others. Beyond that
// it has what the others leave.

// cost is what an index takes of the room. It is so much at least that there are no more
// than maxIndexes.
func (s *Set) cost(x *index) int { return max(s.minCost(), x.tree.Len()) }

func (s *Set) minCost() int { return s.room / maxIndexes }

// use is for which plugin an index is kept, and when that has used it last. Uses by others
// are free of charge, and keep nothing.
type use struct {
	by string
	at time.Time
}

// isUsed records that a list of a plugin uses the index. One that the plugin it was for does
// not use any more is for the next one.
func (x *index) isUsed(by string, now time.Time) {
	if u := x.use.Load(); u.by == by || now.Sub(u.at) >= keepFor {
		x.use.Store(&use{by, now})
	}
}

// toDrop returns the indexes that make room for another one of a plugin: first those that
// are not used any more, then those of the plugins that have more than it would have.
func (s *Set) toDrop(by string, cost int, now time.Time) (drop []*index, fits bool) {
	left := slices.SortedFunc(maps.Values(s.indexes), func(a, b *index) int { return a.use.Load().at.Compare(b.use.Load().at) })
	taken, held := cost, map[string]int{by: cost}
	for _, x := range left {
		taken += s.cost(x)
		held[x.use.Load().by] += s.cost(x)
	}
	for taken > s.room {
		most := slices.Max(slices.Collect(maps.Values(held)))
		i := slices.IndexFunc(left, func(x *index) bool { return now.Sub(x.use.Load().at) >= keepFor })
		if i < 0 && held[by] < most {
			i = slices.IndexFunc(left, func(x *index) bool { return held[x.use.Load().by] == most })
		}
		if i < 0 {
			return nil, false
		}
		x := left[i]
		drop, left = append(drop, x), slices.Delete(left, i, i+1)
		taken -= s.cost(x)
		held[x.use.Load().by] -= s.cost(x)
	}
	return drop, true
}

func (s *Set) drop(indexes []*index) {
	for _, x := range indexes {
		delete(s.indexes, x.of.name())
		s.latest = nil
	}
}

// trim drops indexes that have grown too large, as objects with more values were written.
func (s *Set) trim() {
	if s.entries() > s.room {
		drop, _ := s.toDrop("", 0, time.Time{})
		s.drop(drop)
	}
}

// refusal is an attribute that is not indexed for a plugin for some time.
type refusal struct{ by, attribute string }

// refuse makes an attribute not be indexed for a plugin for some time.
func (s *Set) refuse(of Attribute, by string, now time.Time) {
	if len(s.refused) >= 4*maxIndexes {
		maps.DeleteFunc(s.refused, func(r refusal, at time.Time) bool { return r.by == by || now.Sub(at) >= keepFor })
	}
	s.refused[refusal{by, of.name()}] = now
}

// entries returns the number of entries of all indexes.
func (s *Set) entries() (n int) {
	for _, x := range s.indexes {
		n += x.tree.Len()
	}
	return n
}
