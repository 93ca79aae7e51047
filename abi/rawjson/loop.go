package rawjson

// The loops below read objects and arrays as [Reader.Object] and
// [Reader.Array] do, without a closure, which is how generated code wants it:
//
//	for more := r.FirstMember(); more; more = r.NextMember() {
//		switch r.Name() {
//		case "image":
//			image = r.String()
//		}
//	}
//
// The body reads the value or leaves it to be skipped, and runs to the end: it
// does not break or return. A null has no members and no elements, wherever it
// stands.

// FirstMember enters an object and goes to its first member. It is false if
// there is none, the object then being left, and when the reader fails.
func (r *Reader) FirstMember() bool {
	return r.enter('{', "an object") && r.intoObject()
}

// NextMember goes to the object's next member. It is false if there is none,
// the object then being left, and when the reader fails.
func (r *Reader) NextMember() bool { return r.passed() && r.member(false) }

// Name returns the name of the present member. It is valid as long as the
// input is.
func (r *Reader) Name() string { return r.path[len(r.path)-1].name }

// FirstElement enters an array and goes to its first element. It is false if
// there is none, the array then being left, and when the reader fails.
func (r *Reader) FirstElement() bool {
	return r.enter('[', "an array") && r.intoArray()
}

// NextElement goes to the array's next element. It is false if there is none,
// the array then being left, and when the reader fails.
func (r *Reader) NextElement() bool {
	return r.passed() && r.element(r.path[len(r.path)-1].index+1)
}

// Depth returns how many objects and arrays are entered and not left.
func (r *Reader) Depth() int { return len(r.path) }

// enter opens an object or array; a null is none.
func (r *Reader) enter(c byte, what string) bool {
	if r.space(); r.peek() != c && r.Null() {
		return false
	}
	return r.open(c, what)
}

func (r *Reader) intoObject() bool {
	r.push()
	if r.Strict {
		if r.had == nil {
			r.had = make([]names, 0, usualDepth)
		}
		r.had = append(r.had, names{start: len(r.seen)})
	}
	return r.member(true)
}

func (r *Reader) intoArray() bool {
	r.push()
	return r.element(0)
}

// usualDepth is how many levels a reader has room for at first.
const usualDepth = 4

func (r *Reader) push() {
	if r.path == nil {
		r.path = make([]step, 0, usualDepth)
	}
	r.path = append(r.path, step{index: between})
}

// passed skips the value at which a loop stands, if its body has not read it.
func (r *Reader) passed() bool {
	if r.err == nil && r.pos == r.path[len(r.path)-1].start {
		r.Skip()
	}
	return r.err == nil
}

// member goes to the next member. What is neither written tightly nor plain is
// left to functions that know everything.
func (r *Reader) member(first bool) bool {
	at := &r.path[len(r.path)-1]
	at.index = between
	if r.peek() == '}' {
		r.pos++
		r.leaveObject()
		return false
	}
	name, ok := r.tightName(first)
	if !ok {
		if !r.more(first, '}') {
			r.leaveObject()
			return false
		}
		if name = r.name(); r.err != nil {
			return false
		}
	}
	at.name, at.index = name, inMember
	if r.Strict {
		r.once(&r.had[len(r.had)-1], name)
	}
	r.space()
	at.start = r.pos
	return r.err == nil
}

// tightName reads a comma, if the member is not the first one, a name without
// escapes, and a colon, with no white space between them.
func (r *Reader) tightName(first bool) (name string, ok bool) {
	data, i := r.data, r.pos
	if !first {
		if i >= len(data) || data[i] != ',' {
			return "", false
		}
		i++
	}
	if i >= len(data) || data[i] != '"' {
		return "", false
	}
	end := ordinary(data, i+1)
	if end+1 >= len(data) || data[end] != '"' || data[end+1] != ':' {
		return "", false
	}
	r.pos = end + 2
	return alias(data[i+1 : end]), true
}

func (r *Reader) element(index int) bool {
	at := &r.path[len(r.path)-1]
	at.index = between
	switch c := r.peek(); {
	case c == ']':
		r.pos++
		r.leave()
		return false
	case c == ',' && index > 0 && r.pos+1 < len(r.data) && r.data[r.pos+1] > ' ' && r.data[r.pos+1] != ']':
		r.pos++
	case !r.more(index == 0, ']'):
		r.leave()
		return false
	}
	r.space()
	at.index, at.start = index, r.pos
	return true
}

// leave drops the last step, if the reader has not failed: an error's path is
// that of the place where it happened.
func (r *Reader) leave() {
	if r.err == nil {
		r.path = r.path[:len(r.path)-1]
	}
}

func (r *Reader) leaveObject() {
	if r.leave(); r.Strict && r.err == nil {
		last := len(r.had) - 1
		r.seen, r.had = r.seen[:r.had[last].start], r.had[:last]
	}
}
