package edges

import "slices"

// readers is the set of the readers of one edge. Most sets have one, but an object
// may be read by every key.
type readers struct {
	one  *reader
	many *crowd // replaces one when there are more
}

// crowd is two readers or more.
type crowd struct {
	list    []*reader
	at      map[*reader]int32 // positions in list; nil while there are few
	waiting bool              // to be woken by the crowds
	change  Change            // for which; the zero value if there are several
}

const (
	fewReaders = 16
	// A crowd is large if it is too many to wake before the next event.
	largeCrowd = 256
)

func (s *readers) empty() bool { return s.one == nil && s.many == nil }

func (s *readers) isCrowd() bool { return s.many != nil && len(s.many.list) > largeCrowd }

// add adds a reader that is not in the set.
func (s *readers) add(r *reader) {
	switch {
	case s.empty():
		s.one = r
	case s.many == nil:
		s.one, s.many = nil, &crowd{list: []*reader{s.one, r}}
	default:
		s.many.add(r)
	}
}

// remove removes a reader that is in the set.
func (s *readers) remove(r *reader) {
	if s.one == r {
		s.one = nil
		return
	}
	if s.many.remove(r); len(s.many.list) == 1 {
		s.one, s.many = s.many.list[0], nil
	}
}

func (s *readers) appendTo(all []*reader) []*reader {
	switch {
	case s.one != nil:
		return append(all, s.one)
	case s.many != nil:
		return append(all, s.many.list...)
	}
	return all
}

func (c *crowd) add(r *reader) {
	if c.list = append(c.list, r); c.at != nil {
		c.at[r] = int32(len(c.list) - 1)
		return
	}
	if len(c.list) > fewReaders {
		c.number()
	}
}

// remove puts the last reader in the place of the removed one.
func (c *crowd) remove(r *reader) {
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

// shrink frees what the crowd took when it was larger.
func (c *crowd) shrink() {
	c.list, c.at = slices.Clone(c.list), nil
	if len(c.list) > fewReaders {
		c.number()
	}
}

func (c *crowd) number() {
	c.at = make(map[*reader]int32, len(c.list))
	for i, r := range c.list {
		c.at[r] = int32(i)
	}
}

func (c *crowd) position(r *reader) int {
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
