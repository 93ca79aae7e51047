// Package refused has types for which there is no codec.
package refused

import (
	"bufio"
	"encoding/json"
	"net/http"
	"time"
	"unsafe"

	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/generate/testdata/refused/other"
)

//thole:generate
type Kinds struct {
	Any       any `json:"any"`
	Stringer  interface{ String() string }
	Func      func()                               `json:"func"`
	Chan      chan int                             `json:"chan"`
	Complex   complex128                           `json:"complex"`
	Pointer   unsafe.Pointer                       `json:"pointer"`
	IntKeys   map[int]string                       `json:"intKeys"`
	TextKeys  map[Text]string                      `json:"textKeys"`
	Number    json.Number                          `json:"number"`
	Bytes     []Byte                               `json:"bytes"`
	AnyMap    map[string]any                       `json:"anyMap"`
	Deep      []map[string]*struct{ Probe func() } `json:"deep"`
	PointerTo PointerTo                            `json:"pointerTo"`
	Fine      string                               `json:"fine"`
	Ignored   any                                  `json:"-"`
	Poll      Poll                                 `json:"poll"`
}

// Poll has a part that the author cannot change.
type Poll struct{ Ticker *time.Ticker }

// Text is a key with methods.
type Text string

// MarshalText makes it more than a string.
func (t Text) MarshalText() ([]byte, error) { return []byte(t), nil }

// Byte is a byte with a name.
type Byte byte

// PointerTo is a pointer with a name.
type PointerTo *int

//thole:generate
type Options struct {
	Quoted  int64 `json:"quoted,string"`
	Quoted2 *bool `json:"quoted2,string"`
	Ignored []int `json:"ignored,string"`
	*embedded
	Array [2][]int     `json:"array,omitzero"`
	Zero  withArray    `json:"zero,omitzero"`
	Other http.Cookie  `json:"other,omitzero"`
	Timer time.Timer   `json:"timer,omitzero"`
	Bufio bufio.Reader `json:"bufio,omitzero"`
}

type embedded struct {
	Field string `json:"field"`
}

type withArray struct {
	Names []string
	Inner [1]map[string]int
}

//thole:generate
type Others struct {
	Again   any                    `json:"again"`
	Unnamed struct{ sdk.Duration } `json:"unnamed"`
	Wide    other.Wide             `json:"wide"`
	Embeds  other.Embeds           `json:"embeds"`
}

// Known by its use, and made of an error.
type Spec struct{ Err error }

var _ = sdk.Controller[Spec, Spec]{}

// Compact has what a compact codec cannot have.
//
//thole:compact
type Compact struct {
	Float     float64
	Unsigned  uint
	Bytes     []byte
	Raw       sdk.Raw
	Twice     **int
	Lists     [][]string
	Maps      map[string]map[string]string
	Array     [2]int
	Time      time.Time
	Recursive *CompactTree
	Zero      Positive `json:"zero,omitzero"`
	*Inner
	Fine string
}

// CompactTree is recursive.
type CompactTree struct{ Next *CompactTree }

// Positive has an IsZero method.
type Positive int

// IsZero reports whether p is not positive.
func (p Positive) IsZero() bool { return p <= 0 }

// Inner is embedded as a pointer.
type Inner struct{ Word string }

//thole:compact
type CompactWords []string

//thole:compact
type CompactText struct{ A string }

// MarshalText makes it more than a struct.
func (c CompactText) MarshalText() ([]byte, error) { return []byte(c.A), nil }
