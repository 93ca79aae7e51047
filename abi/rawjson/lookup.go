package rawjson

// Member is one member of an object. Value aliases the text that it was read
// from.
type Member struct {
	Name  string
	Value []byte
}

// Members returns the members of an object in their order. A name that occurs
// twice is returned twice.
func Members(object []byte) ([]Member, error) {
	r := NewReader(object)
	var members []Member
	r.Object(func(name string) {
		members = append(members, Member{Name: name, Value: r.Raw()})
	})
	return members, r.End()
}

// Elements returns the elements of an array. They alias the text.
func Elements(array []byte) ([][]byte, error) {
	r := NewReader(array)
	var elements [][]byte
	r.Array(func(int) { elements = append(elements, r.Raw()) })
	return elements, r.End()
}

// Valid returns an error unless data is one JSON text nested at most maxDepth
// levels deep; 0 means [DefaultMaxDepth].
func Valid(data []byte, maxDepth int) error {
	r := Reader{data: data, MaxDepth: maxDepth}
	r.Skip()
	return r.End()
}

// Lookup returns the value at a path of member names; of a name that occurs
// twice, the last one. The value aliases data. ok is false if there is no such
// member, or if data is not valid JSON.
func Lookup(data []byte, path ...string) (value []byte, ok bool) {
	value = data
	for _, name := range path {
		if value = lookup(value, name); value == nil {
			return nil, false
		}
	}
	return value, true
}

// lookup returns the last member of that name, or nil. It reads the whole object, because a
// text that is not valid must not yield a value.
func lookup(object []byte, name string) (value []byte) {
	r := NewReader(object)
	r.Object(func(member string) {
		if member == name {
			value = r.Raw()
		}
	})
	if r.End() != nil {
		return nil
	}
	return value
}
