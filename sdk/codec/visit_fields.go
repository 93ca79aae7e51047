package codec

// This file has a function for each kind of field that a compact codec can have, and
// functions for values that are not fields.

// VisitString visits a string.
//
//go:noinline
func VisitString[S ~string](v *Visitor, name string, when Presence, x *S) {
	if v.field(name, when, *x == "") {
		StringValue(x, v)
	}
}

// VisitBool visits a boolean.
//
//go:noinline
func VisitBool[B ~bool](v *Visitor, name string, when Presence, x *B) {
	if v.field(name, when, !bool(*x)) {
		BoolValue(x, v)
	}
}

// VisitInt visits an integer.
//
//go:noinline
func VisitInt[T signed](v *Visitor, name string, when Presence, x *T) {
	if v.field(name, when, *x == 0) {
		IntValue(x, v)
	}
}

// VisitStrings visits an array of strings.
//
//go:noinline
func VisitStrings[L ~[]S, S ~string](v *Visitor, name string, when Presence, x *L) {
	switch {
	case !v.field(name, when, v.zeroList(when, *x == nil, len(*x))):
	case v.mode == reading:
		ReadStrings(v.r, x)
	default:
		v.dst = AppendStrings(v.dst, *x)
	}
}

// VisitStringMap visits an object whose members are strings.
//
//go:noinline
func VisitStringMap[M ~map[K]V, K, V ~string](v *Visitor, name string, when Presence, x *M) {
	switch {
	case !v.field(name, when, v.zeroList(when, *x == nil, len(*x))):
	case v.mode == reading:
		ReadStringMap(v.r, x)
	default:
		v.dst = AppendStringMap(v.dst, *x)
	}
}

// VisitStruct visits a struct with a compact codec. OmitEmpty has no effect.
func VisitStruct[T any](v *Visitor, name string, when Presence, x *T, visit func(*T, *Visitor)) {
	searched := v.search(when)
	if searched {
		visit(x, v)
	}
	if v.found(name, searched) {
		visit(x, v)
	}
}

// jsoner is a pointer to a type with a codec of its own.
type jsoner[T any] interface {
	*T
	DecodeJSON(r *Reader)
	AppendJSON(dst []byte) ([]byte, error)
}

// VisitOwn visits a value whose type has a codec of its own.
//
//go:noinline
func VisitOwn[T comparable, P jsoner[T]](v *Visitor, name string, when Presence, x *T) {
	var zero T
	if v.field(name, when, *x == zero) {
		OwnValue[T, P](x, v)
	}
}

// VisitPointer visits what a pointer points to, or null. The value is visited by a
// VisitJSON method or one of the functions below.
//
//go:noinline
func VisitPointer[T any](v *Visitor, name string, when Presence, x **T, value func(*T, *Visitor)) {
	switch v.nullable(name, when, *x == nil) {
	case absent:
	case null:
		*x = nil
	case present:
		if *x == nil {
			*x = new(T)
		}
		value(*x, v)
	}
}

// VisitList visits the elements of a list.
//
//go:noinline
func VisitList[L ~[]T, T any](v *Visitor, name string, when Presence, x *L, value func(*T, *Visitor)) {
	switch v.nullable(name, when, v.zeroList(when, *x == nil, len(*x))) {
	case absent:
	case null:
		*x = nil
	case present:
		list := *x
		if v.mode == reading {
			list = list[:0]
		}
		at := len(v.dst)
		for i := 0; v.element(i, len(list)); i++ {
			if v.mode == reading {
				list = Extend(list)
			}
			value(&list[i], v)
		}
		if v.mode == reading {
			*x = Filled(list)
		} else {
			v.dst = CloseArray(v.dst, at)
		}
	}
}

// VisitMap visits the values of a map, sorted by their keys.
//
//go:noinline
func VisitMap[M ~map[K]T, K ~string, T any](v *Visitor, name string, when Presence, x *M, value func(*T, *Visitor)) {
	switch v.nullable(name, when, v.zeroList(when, *x == nil, len(*x))) {
	case absent:
	case null:
		*x = nil
	case present:
		if v.mode == reading {
			readMap(v, x, value)
			return
		}
		at := len(v.dst)
		var buffer [SmallMap]K
		for _, key := range Keys(*x, buffer[:0]) {
			v.dst = AppendName(v.dst, string(key))
			entry := (*x)[key]
			value(&entry, v)
		}
		v.dst = CloseObject(v.dst, at)
	}
}

func readMap[M ~map[K]T, K ~string, T any](v *Visitor, x *M, value func(*T, *Visitor)) {
	if *x == nil {
		*x = M{}
	}
	for more := v.r.FirstMember(); more; more = v.r.NextMember() {
		key := v.r.Name()
		var entry T
		value(&entry, v)
		(*x)[K(key)] = entry
	}
}

// StringValue reads or appends a string.
func StringValue[S ~string](x *S, v *Visitor) {
	if v.mode == reading {
		text := string(*x)
		v.r.StringTo(&text)
		*x = S(text)
	} else {
		v.dst = AppendString(v.dst, string(*x))
	}
}

// BoolValue reads or appends a boolean.
func BoolValue[B ~bool](x *B, v *Visitor) {
	if v.mode != reading {
		v.dst = AppendBool(v.dst, bool(*x))
	} else if !v.r.Null() {
		*x = B(v.r.Bool())
	}
}

// IntValue reads or appends an integer.
func IntValue[T signed](x *T, v *Visitor) {
	if v.mode == reading {
		ReadInt(v.r, x)
	} else {
		v.dst = AppendInt(v.dst, int64(*x))
	}
}

// BytesValue reads or appends bytes in base64.
func BytesValue(x *[]byte, v *Visitor) {
	if v.mode == reading {
		ReadBytes(v.r, x)
	} else {
		v.dst = AppendBytes(v.dst, *x)
	}
}

// OwnValue reads or appends a value whose type has a codec of its own.
func OwnValue[T any, P jsoner[T]](x *T, v *Visitor) {
	if v.mode == reading {
		P(x).DecodeJSON(v.r)
		return
	}
	var err error
	if v.dst, err = P(x).AppendJSON(v.dst); err != nil && v.err == nil {
		v.err = err
	}
}
