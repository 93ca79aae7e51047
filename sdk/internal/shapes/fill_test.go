package shapes

import (
	"encoding/json"
	"math"
	"reflect"
	"time"

	"github.com/thole-dev/thole/sdk"
)

// filler derives values from bytes. When they are used up it derives zeros.
type filler struct{ data []byte }

func (f *filler) next() byte {
	if len(f.data) == 0 {
		return 0
	}
	b := f.data[0]
	f.data = f.data[1:]
	return b
}

// pick returns a number below n.
func (f *filler) pick(n int) int { return int(f.next()) % n }

// Values that need special treatment when they are written.
var (
	strangeTexts  = []string{"", "a", "é<&>\u2028", "\"\\\n\x00\x7f", "\xff", "plain and long enough for two words", "\b\f", "日本語"}
	strangeFloats = []float64{0, 1, -1.5, 1e21, 1e-7, 1e20, 123456789.125, math.Copysign(0, -1), math.NaN(), math.Inf(1), 1e-6, math.MaxFloat32, math.SmallestNonzeroFloat64}
	strangeRaws   = []sdk.Raw{nil, sdk.Raw(`{"a":[1]}`), sdk.Raw(``), sdk.Raw(`{`), sdk.Raw(`null`), sdk.Raw(`"x"`)}
)

// fill sets a value and the values that it contains.
func (f *filler) fill(v reflect.Value, depth int) {
	switch p := v.Addr().Interface().(type) {
	case *time.Time:
		*p = time.Unix(int64(f.next()), int64(f.next())).AddDate(f.pick(3)*5000, 0, 0).UTC()
		return
	case *sdk.IntOrString:
		*p = []sdk.IntOrString{{}, sdk.FromInt(-7), sdk.FromString("25%"), sdk.FromString("")}[f.pick(4)]
		return
	case *json.RawMessage:
		*p = strangeRaws[f.pick(len(strangeRaws))]
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(f.pick(2) == 1)
	case reflect.String:
		v.SetString(strangeTexts[f.pick(len(strangeTexts))])
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(int8(f.next())) << f.pick(64))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		v.SetUint(uint64(f.next()) << f.pick(64))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(strangeFloats[f.pick(len(strangeFloats))])
	case reflect.Array:
		f.elements(v, depth)
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Field(i); field.CanSet() || v.Type().Field(i).Anonymous && field.Kind() == reflect.Struct {
				f.field(field, depth)
			}
		}
	default:
		f.reference(v, depth)
	}
}

// field fills a field. Of an embedded struct that is not exported, it fills the fields.
func (f *filler) field(v reflect.Value, depth int) {
	if v.CanSet() {
		f.fill(v, depth)
		return
	}
	for i := range v.NumField() {
		f.fill(v.Field(i), depth)
	}
}

// reference fills a value that may be nil.
func (f *filler) reference(v reflect.Value, depth int) {
	n := f.pick(4)
	if n == 0 || depth > 6 {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem(), depth+1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), n-1, n))
		f.elements(v, depth)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range n - 1 {
			key, element := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			f.fill(key, depth+1)
			f.fill(element, depth+1)
			v.SetMapIndex(key, element)
		}
	}
}

func (f *filler) elements(v reflect.Value, depth int) {
	for i := range v.Len() {
		f.fill(v.Index(i), depth+1)
	}
}
