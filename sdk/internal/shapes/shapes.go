// Package shapes has types of every shape for which a codec can be generated. Its tests
// compare the generated code with encoding/json.
package shapes

import (
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/internal/shapes/parts"
)

//go:generate go run github.com/thole-dev/thole/cmd/thole-tools generate ./...

// Scalars has all kinds of values without parts.
//
//thole:generate
type Scalars struct {
	Bool    bool    `json:"bool"`
	String  string  `json:"string"`
	Int     int     `json:"int"`
	Int8    int8    `json:"int8"`
	Int16   int16   `json:"int16"`
	Int32   int32   `json:"int32"`
	Int64   int64   `json:"int64"`
	Uint    uint    `json:"uint"`
	Uint8   uint8   `json:"uint8"`
	Uint16  uint16  `json:"uint16"`
	Uint32  uint32  `json:"uint32"`
	Uint64  uint64  `json:"uint64"`
	Uintptr uintptr `json:"uintptr"`
	Float32 float32 `json:"float32"`
	Float64 float64 `json:"float64"`
	Rune    rune    `json:"rune"`
}

// Optional has fields that are left out if they are empty.
//
//thole:generate
type Optional struct {
	Bool    bool              `json:"bool,omitempty"`
	String  string            `json:"string,omitempty"`
	Int     int               `json:"int,omitempty"`
	Uint    uint8             `json:"uint,omitempty"`
	Float   float64           `json:"float,omitempty"`
	Pointer *int              `json:"pointer,omitempty"`
	Slice   []int             `json:"slice,omitempty"`
	Map     map[string]int    `json:"map,omitempty"`
	Struct  Scalars           `json:"struct,omitempty"` //nolint:modernize // the test expects that it has no effect
	Array   [2]int            `json:"array,omitempty"`
	Empty   [0]int            `json:"empty,omitempty"`
	Bytes   []byte            `json:"bytes,omitempty"`
	Raw     sdk.Raw           `json:"raw,omitempty"`
	Strings []string          `json:"strings,omitempty"`
	Texts   map[string]string `json:"texts,omitempty"`
	Time    time.Time         `json:"time,omitempty"` //nolint:modernize // the test expects that it has no effect
}

// Zero has fields that are left out if they are zero.
//
//thole:generate
type Zero struct {
	Bool    bool           `json:"bool,omitzero"`
	String  string         `json:"string,omitzero"`
	Int     int            `json:"int,omitzero"`
	Float   float32        `json:"float,omitzero"`
	Pointer *int           `json:"pointer,omitzero"`
	Slice   []int          `json:"slice,omitzero"`
	Map     map[string]int `json:"map,omitzero"`
	Plain   Point          `json:"plain,omitzero"`
	Mixed   Mixed          `json:"mixed,omitzero"`
	Array   [2]Point       `json:"array,omitzero"`
	Time    time.Time      `json:"time,omitzero"`
	Own     Even           `json:"own,omitzero"`
	Own2    *Even          `json:"own2,omitzero"`
	Own3    Odd            `json:"own3,omitzero"`
	Both    []int          `json:"both,omitempty,omitzero"`
}

// Point is comparable.
type Point struct{ X, Y float64 }

// Mixed is not comparable.
type Mixed struct {
	Names []string `json:"names"`
	Point Point    `json:"point"`
	quiet map[string]int
	Next  *Mixed `json:"next,omitempty"`
}

// Quiet uses the field that is not exported.
func (m Mixed) Quiet() int { return len(m.quiet) }

// Even has an IsZero method that differs from the zero value.
type Even int

// IsZero reports whether e is even.
func (e Even) IsZero() bool { return e%2 == 0 }

// Odd has an IsZero method with a pointer receiver.
type Odd int

// IsZero reports whether o is odd.
func (o *Odd) IsZero() bool { return *o%2 != 0 }

// Nested has values that contain others.
//
//thole:generate
type Nested struct {
	Pointer  *Point                      `json:"pointer"`
	Twice    **int32                     `json:"twice"`
	Slices   [][]string                  `json:"slices"`
	Pointers []*Point                    `json:"pointers"`
	Maps     map[string]map[string]Point `json:"maps"`
	MapList  map[string][]Point          `json:"mapList"`
	ListMap  []map[string]*bool          `json:"listMap"`
	Array    [3]Point                    `json:"array"`
	Matrix   [2][2]int8                  `json:"matrix"`
	Unnamed  struct {
		A int `json:"a"`
		B []struct {
			C string `json:"c,omitempty"`
		} `json:"b"`
	} `json:"unnamed"`
	Bytes     []byte              `json:"bytes"`
	BytesList [][]byte            `json:"bytesList"`
	Raw       json.RawMessage     `json:"raw"`
	RawList   []sdk.Raw           `json:"rawList"`
	RawMap    map[string]*sdk.Raw `json:"rawMap"`
}

// Named has fields of named types that are not structs.
//
//thole:generate
type Named struct {
	Phase   Phase                 `json:"phase"`
	Phases  []Phase               `json:"phases"`
	Labels  Labels                `json:"labels"`
	Keys    map[Phase]Phase       `json:"keys"`
	Points  Points                `json:"points"`
	Index   map[Phase]Point       `json:"index"`
	Blob    Blob                  `json:"blob"`
	Pair    Pair                  `json:"pair"`
	Flag    Flag                  `json:"flag"`
	Count   Count                 `json:"count"`
	Ratio   Ratio                 `json:"ratio"`
	Alias   Alias                 `json:"alias"`
	Aliases []Alias               `json:"aliases"`
	Box     Box[Point]            `json:"box"`
	Boxes   map[string]Box[int32] `json:"boxes"`
}

// The types of [Named].
type (
	Phase      string
	Labels     map[string]string
	Points     []Point
	Blob       []byte
	Pair       [2]Phase
	Flag       bool
	Count      uint32
	Ratio      float32
	Alias      = Point
	Box[T any] struct {
		Content T   `json:"content"`
		More    []T `json:"more,omitempty"`
	}
)

// Embedding has the fields of embedded structs.
//
//thole:generate
type Embedding struct {
	sdk.TypeMeta `json:",inline"`
	Base
	*Optional2
	inner
	Upper
	Lower
	Tagged   `json:"tagged"`
	Phase                   // a field with the name of its type
	Metadata sdk.ObjectMeta `json:"metadata"`
	Name     string         `json:"name"` // hides the field of Base
}

// Base is embedded in [Embedding].
type Base struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
	Deep
}

// Deep is embedded in [Base].
type Deep struct {
	Count int    `json:"count"` // hidden by the field of Base
	Depth int    `json:"depth"`
	Clash string // has the name of a field of inner, at another depth
}

// Optional2 is embedded as a pointer.
type Optional2 struct {
	Maybe string `json:"maybe,omitempty"`
	Sure  int    `json:"sure"`
	Twice string `json:"twice"` // conflicts with the field of inner: neither counts
}

type inner struct {
	Inner string `json:"inner"`
	Twice string `json:"twice"`
	Clash string `json:"Clash,omitempty"`
}

// Upper and Lower are embedded in [Embedding], and both embed Shared.
type (
	Upper struct{ Shared }
	Lower struct{ Shared }
)

// Shared is embedded twice at the same depth: its own fields conflict with themselves
// and do not count, those of the struct that it embeds do.
type Shared struct {
	Ambiguous int
	Bottom
}

// Bottom is embedded in [Shared].
type Bottom struct {
	Kept int
}

// Tagged is embedded with a name in its tag.
type Tagged struct {
	A int `json:"a"`
}

// Tags has members whose names are not those of the fields.
//
//thole:generate
type Tags struct {
	NoTag    int
	Skipped  int `json:"-"`
	Dash     int `json:"-,"` //nolint:staticcheck // the name is a dash
	Unicode  int `json:"größe"`
	Odd      int `json:"a.b/c:d$%-"`
	Bad      int `json:"a\"b"` //nolint:staticcheck // encoding/json ignores this name
	Quote    int `json:"it's"` //nolint:staticcheck // encoding/json ignores this name
	Options  int `json:",unknown"`
	Other    int `yaml:"other"`
	Upper    int `json:"UPPER"`
	HTML     int `json:"<&>"`
	hidden   int
	NoFields struct{} `json:"noFields"`
}

// Hidden uses the field that is not exported.
func (t Tags) Hidden() int { return t.hidden }

// Values has the types of the SDK and others with JSON methods of their own.
//
//thole:generate
type Values struct {
	Time     sdk.Time                `json:"time"`
	Micro    sdk.MicroTime           `json:"micro,omitempty"`
	Duration sdk.Duration            `json:"duration"`
	Maybe    *sdk.Duration           `json:"maybe,omitempty"`
	Port     sdk.IntOrString         `json:"port"`
	Ports    []sdk.IntOrString       `json:"ports,omitempty"`
	Limit    sdk.Quantity            `json:"limit,omitempty"`
	Limits   map[string]sdk.Quantity `json:"limits,omitempty"`
	Clock    time.Time               `json:"clock"`
	Clocks   map[string]time.Time    `json:"clocks,omitempty"`
	Wait     time.Duration           `json:"wait"`
	Hex      Hex                     `json:"hex"`
	HexList  []*Hex                  `json:"hexList,omitempty"`
	Text     Text                    `json:"text"`
	TextList TextList                `json:"textList,omitempty"`
	HalfRead HalfRead                `json:"halfRead"`
	HalfShow HalfShow                `json:"halfShow"`
	Own      Own                     `json:"own"`
	Owner    sdk.OwnerReference      `json:"owner"`
	When     []sdk.Condition         `json:"when,omitempty"`
	Foreign  parts.Port              `json:"foreign"`
	Foreigns []parts.Port            `json:"foreigns,omitempty"`
	Level    parts.Level             `json:"level"`
	Other    parts.Generated         `json:"other"`
	Selector sdk.LabelSelector       `json:"selector"`
	Selected *sdk.LabelSelector      `json:"selected,omitempty"`
}

// Compact has all fields that a compact codec can have.
//
//thole:compact
type Compact struct {
	CompactPart
	Bool     bool                    `json:"bool"`
	Int8     int8                    `json:"int8"`
	Words    []string                `json:"words"`
	Texts    Labels                  `json:"texts"`
	Part     CompactPart             `json:"part"`
	Maybe    *CompactPart            `json:"maybe"`
	List     []CompactPart           `json:"list"`
	Index    map[Phase]CompactPart   `json:"index"`
	Blobs    map[string][]byte       `json:"blobs"`
	Port     sdk.IntOrString         `json:"port"`
	Limits   map[string]sdk.Quantity `json:"limits"`
	Metadata sdk.ObjectMeta          `json:"metadata"`
	Other    parts.Visited           `json:"other"`
	Empty    CompactEmpty            `json:"empty"`
	Zero     CompactZero             `json:"zero,omitzero"`
}

// CompactEmpty has fields that are left out if they are empty.
type CompactEmpty struct {
	Flag     Flag                    `json:"flag,omitempty"`
	Phase    Phase                   `json:"phase,omitempty"`
	Int64    int64                   `json:"int64,omitempty"`
	Words    []Phase                 `json:"words,omitempty"`
	Texts    map[string]string       `json:"texts,omitempty"`
	Part     CompactPart             `json:"part,omitempty"` //nolint:modernize // the test expects that it has no effect
	Port     sdk.IntOrString         `json:"port,omitempty"` //nolint:modernize // the test expects that it has no effect
	Limit    sdk.Quantity            `json:"limit,omitempty"`
	Maybe    *int32                  `json:"maybe,omitempty"`
	Perhaps  *bool                   `json:"perhaps,omitempty"`
	List     CompactList             `json:"list,omitempty"`
	Numbers  []int                   `json:"numbers,omitempty"`
	Limits   map[string]sdk.Quantity `json:"limits,omitempty"`
	Selector *sdk.LabelSelector      `json:"selector,omitempty"`
	Other    *parts.Visited          `json:"other,omitempty"`
}

// CompactZero has fields that are left out if they are zero.
type CompactZero struct {
	Bool     bool                       `json:"bool,omitzero"`
	Phase    Phase                      `json:"phase,omitzero"`
	Int      int                        `json:"int,omitzero"`
	Words    []string                   `json:"words,omitzero"`
	Texts    map[string]string          `json:"texts,omitzero"`
	Part     CompactPart                `json:"part,omitzero"`
	Maybe    *string                    `json:"maybe,omitzero"`
	List     []sdk.IntOrString          `json:"list,omitzero"`
	Index    map[string]sdk.IntOrString `json:"index,omitzero"`
	Port     sdk.IntOrString            `json:"port,omitzero"`
	Limit    sdk.Quantity               `json:"limit,omitempty,omitzero"`
	Metadata sdk.ObjectMeta             `json:"metadata,omitzero"`
	Other    parts.Visited              `json:"other,omitzero"`
}

// CompactPart is a part of [Compact].
type CompactPart struct {
	Name  string   `json:"name,omitempty"`
	Count int32    `json:"count"`
	Time  sdk.Time `json:"time,omitempty"`
}

// CompactList is a list of structs.
type CompactList []CompactPart

// Visiting consists of types with a compact codec, and has none itself.
//
//thole:generate
type Visiting struct {
	Compact Compact                  `json:"compact"`
	Part    *CompactPart             `json:"part"`
	Parts   []CompactPart            `json:"parts"`
	Others  map[string]parts.Visited `json:"others"`
	Zero    parts.Visited            `json:"zero,omitzero"`
	Meta    sdk.ObjectMeta           `json:"meta"` // that has both codecs
}

// Hex has JSON methods.
type Hex uint32

// MarshalJSON writes hexadecimal digits. It fails for 13.
func (h Hex) MarshalJSON() ([]byte, error) {
	if h == 13 {
		return nil, errors.New("13 cannot be written")
	}
	return strconv.AppendQuote(nil, strconv.FormatUint(uint64(h), 16)), nil
}

// UnmarshalJSON reads hexadecimal digits.
func (h *Hex) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*h = 0
		return nil
	}
	text, err := strconv.Unquote(string(data))
	if err != nil {
		return err
	}
	n, err := strconv.ParseUint(text, 16, 32)
	*h = Hex(n)
	return err
}

// Text has text methods.
type Text struct{ A, B byte }

// MarshalText writes two letters.
func (t Text) MarshalText() ([]byte, error) { return []byte{'a' + t.A%26, 'a' + t.B%26}, nil }

// UnmarshalText reads two letters.
func (t *Text) UnmarshalText(text []byte) error {
	if len(text) != 2 {
		return errors.New("not two letters")
	}
	*t = Text{text[0] - 'a', text[1] - 'a'}
	return nil
}

// TextList is a slice with text methods.
type TextList []byte

// MarshalText writes the length.
func (t TextList) MarshalText() ([]byte, error) { return []byte(strconv.Itoa(len(t))), nil }

// UnmarshalText reads the length.
func (t *TextList) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 10, 8)
	*t = make(TextList, n)
	return err
}

// HalfRead has a method for reading only.
type HalfRead struct {
	N int `json:"n"`
}

// UnmarshalJSON stores the length of any value.
func (h *HalfRead) UnmarshalJSON(data []byte) error {
	h.N = len(data)
	return nil
}

// HalfShow has a method for writing only.
type HalfShow struct {
	N int `json:"n"`
}

// MarshalText writes N.
func (h HalfShow) MarshalText() ([]byte, error) { return strconv.AppendInt(nil, int64(h.N), 10), nil }

// Own embeds a type with JSON methods, which encoding/json uses for the whole struct.
type Own struct {
	sdk.Duration
	Ignored int `json:"ignored"`
}

// Tree contains itself in every way.
//
//thole:generate
type Tree struct {
	Name  string           `json:"name,omitempty"`
	Left  *Tree            `json:"left,omitempty"`
	Many  []Tree           `json:"many,omitempty"`
	Named map[string]*Tree `json:"named,omitempty"`
	Loop  Loop             `json:"loop,omitempty"`
}

// Loop is a slice of itself.
type Loop []Loop

// List is a slice with methods.
//
//thole:generate
type List []Point

// Table is a map with methods.
//
//thole:generate
type Table map[string]Scalars

// Word is a string with methods.
//
//thole:generate
type Word string
