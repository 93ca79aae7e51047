package sdk

import (
	"bytes"

	"github.com/thole-dev/thole/abi/rawjson"
)

// deepestRebase is how deep values are compared: the stack of a guest may have only 64 KiB. What is nested deeper
// is replaced as a whole. No schema that we know has more than some 30 levels.
const deepestRebase = 40

// rebase returns a JSON value with the difference between what the author's types have of it before
// and after a change. What the types do not have keeps its bytes. A value that is nil is absent.
func rebase(value, before, after []byte) []byte {
	return rebaseWithin(deepestRebase, value, before, after)
}

func rebaseWithin(levels int, value, before, after []byte) []byte {
	switch {
	case bytes.Equal(before, after):
		return value
	case levels == 0:
		return after
	case before == nil:
		before = []byte("{}") // left out because it is zero
	}
	switch kind := kindOf(after); {
	case kind == '{' && kindOf(before) == '{' && (value == nil || kindOf(value) == '{'):
		return rebaseMembers(levels-1, value, before, after)
	case kind == '[' && kindOf(before) == '[' && kindOf(value) == '[':
		return rebaseElements(levels-1, value, before, after)
	}
	return after
}

func kindOf(value []byte) byte { return rawjson.NewReader(value).Kind() }

// rebaseMembers is [rebase] for objects. A null of the author's types stands for no member.
func rebaseMembers(levels int, value, before, after []byte) []byte {
	was, is := membersOf(before), membersOf(after)
	have, _ := rawjson.Members(value)
	w := rawjson.NewWriter(make([]byte, 0, len(value)+len(after)))
	w.Object(func() {
		write := func(name string, value []byte) {
			if value = rebaseWithin(levels, value, was[name], is[name]); value != nil {
				w.Name(name).Raw(value)
			}
			delete(is, name)
		}
		for _, m := range have {
			write(m.Name, m.Value)
		}
		more, _ := rawjson.Members(after)
		for _, m := range more {
			write(m.Name, nil)
		}
	})
	return w.Bytes()
}

// membersOf returns the members of an object that are not null.
func membersOf(object []byte) map[string][]byte {
	members, _ := rawjson.Members(object)
	all := make(map[string][]byte, len(members))
	for _, m := range members {
		if kindOf(m.Value) != 'n' {
			all[m.Name] = m.Value
		}
	}
	return all
}

// rebaseElements is [rebase] for arrays. An element after the change is the one before it that is
// equal; else the one that has the same name; else, if the number of elements that have changed is
// the same, and neither has a name, the one at its place.
func rebaseElements(levels int, value, before, after []byte) []byte {
	have, _ := rawjson.Elements(value)
	was, _ := rawjson.Elements(before)
	is, _ := rawjson.Elements(after)
	if len(have) != len(was) {
		return after
	}
	first := 0
	for first < min(len(was), len(is)) && bytes.Equal(was[first], is[first]) {
		first++
	}
	last := 0
	for last < min(len(was), len(is))-first && bytes.Equal(was[len(was)-1-last], is[len(is)-1-last]) {
		last++
	}
	w := rawjson.NewWriter(make([]byte, 0, len(value)+len(after)))
	w.Array(func() {
		for _, e := range have[:first] {
			w.Raw(e)
		}
		changed := pairElements(levels, have[first:len(have)-last], was[first:len(was)-last], is[first:len(is)-last])
		for _, e := range changed {
			w.Raw(e)
		}
		for _, e := range have[len(have)-last:] {
			w.Raw(e)
		}
	})
	return w.Bytes()
}

// pairElements returns the elements after a change.
func pairElements(levels int, have, was, is [][]byte) [][]byte {
	same, named := map[string][]int{}, map[string][]int{} // indexes of was that are not used yet
	for i, e := range was {
		same[string(e)] = append(same[string(e)], i)
	}
	out := make([][]byte, len(is))
	used := make([]bool, len(was))
	for j, e := range is {
		if i, ok := take(same, string(e)); ok {
			out[j], used[i] = have[i], true
		}
	}
	for i, e := range was {
		if name := nameOf(e); name != "" && !used[i] {
			named[name] = append(named[name], i)
		}
	}
	for j, e := range is {
		if out[j] != nil {
			continue
		}
		out[j] = e
		name := nameOf(e)
		if i, ok := take(named, name); ok {
			out[j] = rebaseWithin(levels, have[i], was[i], e)
		} else if name == "" && len(was) == len(is) && !used[j] && nameOf(was[j]) == "" {
			out[j] = rebaseWithin(levels, have[j], was[j], e)
		}
	}
	return out
}

// take removes the first of the indexes of a key.
func take(indexes map[string][]int, key string) (i int, ok bool) {
	all := indexes[key]
	if len(all) == 0 {
		return 0, false
	}
	indexes[key] = all[1:]
	return all[0], true
}

// nameOf returns the member name of an object as JSON, "" if the value has none.
func nameOf(value []byte) string {
	name, _ := rawjson.Lookup(value, "name")
	return string(name)
}
