package wasm

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestAppendS64UsesTheShortestEncoding(t *testing.T) {
	for v, want := range map[int64]string{
		0: "\x00", 63: "\x3f", 64: "\xc0\x00", -1: "\x7f", -64: "\x40", -65: "\xbf\x7f", 128: "\x80\x01",
		math.MinInt64: "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x7f",
	} {
		if got := string(AppendS64(nil, v)); got != want {
			t.Errorf("%d is %x, want %x", v, got, want)
		}
		if r := NewReader([]byte(want)); r.signed(10) != v || r.Err() != nil {
			t.Errorf("%x is not read as %d", want, v)
		}
	}
}

func TestU32RefusesNumbersOfMoreThan32Bits(t *testing.T) {
	if r := NewReader([]byte("\xff\xff\xff\xff\x0f")); r.U32() != math.MaxUint32 || r.Err() != nil {
		t.Errorf("the largest number: %v", r.Err())
	}
	for _, long := range []string{"\xff\xff\xff\xff\x1f", "\x80\x80\x80\x80\x80\x00"} {
		if r := NewReader([]byte(long)); r.U32() != 0 || r.Err() == nil {
			t.Errorf("%x is accepted", long)
		}
	}
}

func TestReaderErrorIsSticky(t *testing.T) {
	r := NewReader([]byte{1, 2, 3})
	r.Byte()
	if r.Bytes(3) != nil || !errors.Is(r.Err(), ErrTruncated) {
		t.Errorf("error = %v", r.Err())
	}
	r.Failf("another")
	if r.Byte() != 0 || r.U32() != 0 || r.Name() != "" || r.Len() != 0 || !errors.Is(r.Err(), ErrTruncated) {
		t.Errorf("after a failure: error = %v, %d bytes left", r.Err(), r.Len())
	}
	if sub := r.Sub(0); !errors.Is(sub.Err(), ErrTruncated) {
		t.Errorf("sub reader: error = %v", sub.Err())
	}
}

func TestCountIsBoundedByTheBytesLeft(t *testing.T) {
	for _, c := range []struct {
		name, data, want string
	}{
		{"fits", "\x02\x00\x00\x00\x00", ""},
		{"more than the bytes", "\x03\x00\x00\x00\x00", "3 things do not fit the 4 bytes left"},
		{"more than the limit", "\x06" + strings.Repeat("\x00", 12), "6 things, the limit is 5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := NewReader([]byte(c.data))
			n := r.Count("things", 2, 5)
			if c.want == "" {
				if n != 2 || r.Err() != nil {
					t.Errorf("%d, %v", n, r.Err())
				}
			} else if n != 0 || r.Err() == nil || !strings.Contains(r.Err().Error(), c.want) {
				t.Errorf("%d, %v, want %q", n, r.Err(), c.want)
			}
		})
	}
}

func TestEntriesAreReadAsTheyAreAppended(t *testing.T) {
	typ := Signature([]ValueType{I32, F64}, I64)
	if got := NewReader(typ.Append(nil)).FuncType(); got != typ || got.String() != "(i32, f64) -> i64" {
		t.Errorf("type = %v", got)
	}
	table := Table{Type: ExternRef, Limits: Limits{Min: 3, Max: 300, HasMax: true}}
	if got := NewReader(table.Append(nil)).Table(); got != table {
		t.Errorf("table = %+v", got)
	}
	r := NewReader(AppendGlobal(nil, I64, AppendConst(nil, OpI64Const, -9)))
	if got := r.Global(); got != (Global{Type: I64, Mutable: true}) {
		t.Errorf("global = %+v", got)
	}
	var in Instruction
	if r.Instruction(&in); in.Op != OpI64Const || in.Value != -9 {
		t.Errorf("start value = %+v", in)
	}
}

func TestInsertSizeMovesWhatFollows(t *testing.T) {
	for _, n := range []int{0, 1, 127, 128, 20_000} {
		body := bytes.Repeat([]byte{7}, n)
		got := InsertSize(append([]byte("before"), body...), len("before"), byte(CodeSection))
		if want := AppendSection([]byte("before"), CodeSection, body); !bytes.Equal(got, want) {
			t.Errorf("%d bytes: %x, want %x", n, got, want)
		}
	}
}

func TestSectionOrder(t *testing.T) {
	if !DataCountSection.Precedes(CodeSection) || CodeSection.Precedes(DataCountSection) {
		t.Error("the data count does not precede the code")
	}
	if TypeSection.Precedes(TypeSection) || TypeSection.Precedes(CustomSection) {
		t.Error("a section precedes itself, or a custom section")
	}
	if sorted := slices.Sorted(slices.Values(SectionOrder[:])); len(slices.Compact(sorted)) != int(DataCountSection) {
		t.Errorf("sections %v, want each once", sorted)
	}
}

// FuzzInstruction: what is read is appended such that it reads the same again,
// and is then in its shortest encoding.
func FuzzInstruction(f *testing.F) {
	for _, seed := range []string{"\x41\x80\x80\x00", "\x0e\x02\x00\x01\x82\x00", "\x28\x02\x80\x01", "\xfc\x0e\x00\x01", "\xfd\x54\x00\x00\x03", "\x1c\x01\x7f", "\x02\x40"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := NewReader(data)
		var in Instruction
		if r.Instruction(&in); r.Err() != nil {
			return
		}
		shortest := in.Append(nil)
		if len(shortest) > r.Offset() {
			t.Errorf("%x was read from %x", shortest, data[:r.Offset()])
		}
		again := NewReader(shortest)
		var out Instruction
		again.Instruction(&out)
		if again.Err() != nil || again.Len() != 0 || out.Op != in.Op || out.A != in.A || out.B != in.B || out.Value != in.Value || !bytes.Equal(out.Append(nil), shortest) {
			t.Errorf("%x reads as %+v, want %+v (%v)", shortest, out, in, again.Err())
		}
	})
}
