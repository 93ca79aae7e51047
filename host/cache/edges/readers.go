package edges

import "slices"

// readers are the readers of each edge of a kind, by its id. Most edges have one, but
// an object may be read by every key. An id is in one of the maps.
type readers struct {
	one  map[uint64]*reader
	many map[uint64]*readerList
}

func newReaders() readers {
	return readers{one: map[uint64]*reader{}, many: map[uint64]*readerList{}}
}

// edges returns how many edges there are.
func (s *readers) edges() int { return len(s.one) + len(s.many) }

// add adds a reader that an edge does not have. It reports whether it is the first.
func (s *readers) add(id uint64, r *reader) (first bool) {
	one := s.one[id]
	switch many := s.many[id]; {
	case many != nil:
		many.add(r)
	case one != nil:
		delete(s.one, id)
		s.many[id] = &readerList{list: []*reader{one, r}}
	default:
		s.one[id] = r
		return true
	}
	return false
}

// remove removes a reader that an edge has. It reports whether it was the last.
func (s *readers) remove(id uint64, r *reader) (last bool) {
	many := s.many[id]
	if many == nil {
		delete(s.one, id)
		return true
	}
	if many.remove(r); len(many.list) == 1 {
		delete(s.many, id)
		s.one[id] = many.list[0]
	}
	return false
}

func (s *readers) appendTo(all []*reader, id uint64) []*reader {
	if r := s.one[id]; r != nil {
		return append(all, r)
	}
	if many := s.many[id]; many != nil {
		return append(all, many.list...)
	}
	return all
}

// isLong reports whether an edge has too many readers to wake before the next event.
func (s *readers) isLong(id uint64) bool {
	many := s.many[id]
	return many != nil && len(many.list) > manyReaders
}

// readerList is two readers of an edge or more.
type readerList struct {
	list    []*reader
	at      map[*reader]int32 // positions in list; nil while there are few
	waiting bool              // to be woken by the bulkWakes
	change  Change            // for which; the zero value if there are several
}

const (
	fewReaders = 16
	// More readers than manyReaders are not woken before the next event.
	manyReaders = 256
)

func (c *readerList) add(r *reader) {
	if c.list = append(c.list, r); c.at != nil {
		c.at[r] = int32(len(c.list) - 1)
		return
	}
	if len(c.list) > fewReaders {
		c.number()
	}
}

// remove puts the last reader in the place of the removed one.
func (c *readerList) remove(r *reader) {
	i, last := c.position(r), len(c.list)-1
	c.list[i] = c.list[last]
	if c.at != nil {
		c.at[c.list[i]] = int32(i)
		delete(c.at, r)
	}
	c.list[last] = nil
	if c.list = c.list[:last]; last < cap(c.list)/4 {
		c.shrink()
	}
}

// shrink frees what the list took when it was longer.
func (c *readerList) shrink() {
	c.list, c.at = slices.Clone(c.list), nil
	if len(c.list) > fewReaders {
		c.number()
	}
}

func (c *readerList) number() {
	c.at = make(map[*reader]int32, len(c.list))
	for i, r := range c.list {
		c.at[r] = int32(i)
	}
}

func (c *readerList) position(r *reader) int {
	if c.at != nil {
		return int(c.at[r])
	}
	for i, other := range c.list {
		if other == r {
			return i
		}
	}
	panic("edges: the reader is not in the set")
}
