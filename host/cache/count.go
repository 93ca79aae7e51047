package cache

import (
	"time"

	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/host/cache/objects"
)

// CountBy counts the objects that are shown by the values of a field, for an owner. The field is indexed
// if the plugin of the owner has room for that; else, and for few objects, every object is read.
func (i *Informer) CountBy(owner Owner, field fieldpath.Path) objects.Counts {
	sum := objects.Counts{ByValue: map[string]int{}}
	for n := range i.parts {
		p := &i.parts[n]
		counts := p.store.count(objects.FieldAttribute(field), owner.Plugin(), p.cache.config.Clock.Now(), p.shown())
		for value, count := range counts.ByValue {
			sum.ByValue[value] += count
		}
		sum.Without += counts.Without
		sum.Other += counts.Other
	}
	return sum
}

// shown returns what reports whether an object is shown, nil if all are. Unlike has, it leaves objects
// packed: it is called for all of them again and again.
func (p *part) shown() func(*objects.Entry) bool {
	if !p.filtered {
		return nil
	}
	return func(e *objects.Entry) bool {
		return p.rest.HasNamespace(e.Key().Namespace) && (!p.rest.Selects() || p.rest.Has(e.Peek()))
	}
}

// count counts the objects by the values of an attribute, for a plugin. It counts without a lock.
func (s *store) count(of objects.Attribute, by string, now time.Time, shown func(*objects.Entry) bool) objects.Counts {
	n := s.open()
	defer func() { s.close(n) }()
	if !n.HasIndex(of, by, now) {
		s.index(of, objects.Query{By: by}, now)
		s.close(n)
		n = s.open()
	}
	counts, err := n.Count(of, shown)
	if err != nil {
		return s.count(of, by, now, shown) // it has expired at once
	}
	return counts
}
