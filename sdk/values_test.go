package sdk

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
)

func TestIntOrStringIsReadAndWrittenAsEither(t *testing.T) {
	for text, want := range map[string]struct {
		value IntOrString
		text  string
	}{
		`8080`: {FromInt(8080), "8080"}, `-1`: {FromInt(-1), "-1"}, `"http"`: {FromString("http"), "http"}, `"80"`: {FromString("80"), "80"},
		`null`: {IntOrString{}, "0"},
	} {
		var v IntOrString
		if err := json.Unmarshal([]byte(text), &v); err != nil || v != want.value || v.String() != want.text {
			t.Errorf("%s is read as %v, %v", text, v, err)
		}
		if out, err := json.Marshal(v); text != "null" && (err != nil || string(out) != text) {
			t.Errorf("%s is written as %s, %v", text, out, err)
		}
	}
	if n, ok := FromInt(7).Int(); n != 7 || !ok {
		t.Error("Int is false for a number")
	}
	if _, ok := FromString("7").Int(); ok {
		t.Error("Int is true for a string")
	}
	for _, text := range []string{`1.5`, `2147483648`, `true`, `{}`, `[1]`} {
		var v IntOrString
		if err := json.Unmarshal([]byte(text), &v); err == nil || !strings.Contains(err.Error(), "expected an integer") {
			t.Errorf("%s is read as %v, %v", text, v, err)
		}
	}
}

func TestPercentageOfTotalIsRounded(t *testing.T) {
	for _, c := range []struct {
		value      IntOrString
		total      int
		down, up   int
		unreadable bool
	}{
		{value: FromInt(3), total: 100, down: 3, up: 3},
		{value: FromString("25%"), total: 10, down: 2, up: 3},
		{value: FromString("50%"), total: 10, down: 5, up: 5},
		{value: FromString("150%"), total: 3, down: 4, up: 5},
		{value: FromString("-25%"), total: 10, down: -3, up: -2},
		{value: FromString("25"), unreadable: true},
		{value: FromString("%"), unreadable: true},
		{value: FromString("1.5%"), unreadable: true},
	} {
		down, err1 := c.value.Of(c.total, false)
		up, err2 := c.value.Of(c.total, true)
		if down != c.down || up != c.up || (err1 != nil) != c.unreadable || (err2 != nil) != c.unreadable {
			t.Errorf("%v of %d is %d, %d, %v", c.value, c.total, down, up, err1)
		}
	}
}

// TestQuantityHasValuesOfKubernetes has the values of resource.Quantity in
// k8s.io/apimachinery, except for negative ones with a fraction and for those above
// 2^63-1, where that overflows.
func TestQuantityHasValuesOfKubernetes(t *testing.T) {
	for _, c := range []struct {
		text  Quantity
		value int64
		milli int64
	}{
		{"", 0, 0},
		{"0", 0, 0},
		{"1", 1, 1000},
		{"500m", 1, 500},
		{"1.5", 2, 1500},
		{"1e3", 1000, 1000000},
		{"1E3", 1000, 1000000},
		{"1e+2", 100, 100000},
		{"1e-3", 1, 1},
		{"2Gi", 2147483648, 2147483648000},
		{"1.5Ki", 1536, 1536000},
		{"0.1Ki", 103, 102400},
		{"100n", 1, 1},
		{"1u", 1, 1},
		{"1000u", 1, 1},
		{"1001u", 1, 2},
		{"12k", 12000, 12000000},
		{"3M", 3000000, 3000000000},
		{"1G", 1e9, 1e12},
		{"1T", 1e12, 1e15},
		{"1P", 1e15, 1e18},
		{"7E", 7e18, math.MaxInt64},
		{"1Ti", 1 << 40, (1 << 40) * 1000},
		{"1Pi", 1 << 50, (1 << 50) * 1000},
		{"7Ei", 7 << 60, math.MaxInt64},
		{"10E", math.MaxInt64, math.MaxInt64},
		{"1e30", math.MaxInt64, math.MaxInt64},
		{"1e-30", 1, 1},
		{"0.0000000001", 1, 1},
		{".5", 1, 500},
		{"5.", 5, 5000},
		{"007", 7, 7000},
		{"+1", 1, 1000},
		{"-1", -1, -1000},
		{"-500m", -1, -500},
		{"-0", 0, 0},
		{"1000000000000000000000000m", math.MaxInt64, math.MaxInt64},
		{"123456789.123456789", 123456790, 123456789124},
	} {
		var q Quantity
		data, _ := json.Marshal(string(c.text))
		if err := json.Unmarshal(data, &q); err != nil || q != c.text {
			t.Errorf("%q is read as %q, %v", c.text, q, err)
		}
		if q.Value() != c.value || q.MilliValue() != c.milli {
			t.Errorf("%q is %d, %d milli", c.text, q.Value(), q.MilliValue())
		}
	}
}

func TestMalformedQuantityIsRejected(t *testing.T) {
	for _, text := range []string{
		`"x"`, `"1x"`, `"1 "`, `" 1"`, `"1Kib"`, `"1i"`, `"K"`, `"m"`, `"."`, `"-"`, `"1..2"`, `"1.2.3"`, `"e3"`, `"1e"`, `"1e3.5"`, `"0x10"`, `"1K"`,
		`true`, `{}`, `[1]`,
	} {
		var q Quantity
		if err := json.Unmarshal([]byte(text), &q); err == nil || !strings.Contains(err.Error(), "expected a quantity such as 500m or 2Gi") {
			t.Errorf("%s is read as %q, %v", text, q, err)
		}
	}
}

func TestQuantityIsReadFromNumber(t *testing.T) {
	for text, want := range map[string]Quantity{`1.5`: "1.5", `1e3`: "1e3", `-2`: "-2", `null`: ""} {
		var q Quantity
		if err := json.Unmarshal([]byte(text), &q); err != nil || q != want {
			t.Errorf("%s is read as %q, %v", text, q, err)
		}
	}
}

func TestQuantityCmpComparesAmounts(t *testing.T) {
	ascending := []Quantity{"-10E", "-1Ki", "-1000", "-1m", "0", "1n", "1u", "1m", "0.5", "1", "1k", "1Ki", "1M", "1Mi", "9E", "10E"}
	for i, a := range ascending {
		for j, b := range ascending {
			want := 0
			if i < j {
				want = -1
			} else if i > j {
				want = 1
			}
			if got := a.Cmp(b); got != want {
				t.Errorf("%s compared with %s is %d", a, b, got)
			}
		}
	}
	for a, b := range map[Quantity]Quantity{"1": "1000m", "1Gi": "1073741824", "0": "-0", "": "0", "0.5": "500m", "1e3": "1k", "20E": "10E"} {
		if a.Cmp(b) != 0 || b.Cmp(a) != 0 {
			t.Errorf("%s and %s are not equal", a, b)
		}
	}
}

func TestDurationIsReadAndWrittenInGoNotation(t *testing.T) {
	for text, want := range map[string]time.Duration{`"90s"`: 90 * time.Second, `"1h30m"`: 90 * time.Minute, `"0"`: 0, `"-1ms"`: -time.Millisecond, `null`: 0} {
		var d Duration
		if err := json.Unmarshal([]byte(text), &d); err != nil || d != DurationOf(want) {
			t.Errorf("%s is read as %v, %v", text, d, err)
		}
	}
	if out, err := json.Marshal(struct{ D Duration }{DurationOf(90 * time.Second)}); err != nil || string(out) != `{"D":"1m30s"}` {
		t.Errorf("written as %s, %v", out, err)
	}
	for text, want := range map[string]string{
		`"x"`:  `expected a duration such as 90s or 1h30m, found "x"`,
		`"90"`: `expected a duration such as 90s or 1h30m, found "90"`,
		`90`:   `expected a duration in quotes such as "90s", found a number`,
		`{}`:   `expected a duration in quotes such as "90s", found an object`,
	} {
		var d Duration
		if err := json.Unmarshal([]byte(text), &d); err == nil || err.Error() != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestMicroTimeHasSixDecimals(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.FixedZone("", 3600))
	got := MicroTimeOf(at)
	if got != "2026-01-02T02:04:05.678901Z" || !got.Time().Equal(at.Truncate(time.Microsecond)) {
		t.Errorf("%v is %s, %v", at, got, got.Time())
	}
	if MicroTimeOf(time.Time{}) != "" || !MicroTime("").Time().IsZero() || !MicroTime("x").Time().IsZero() {
		t.Error("an empty or malformed time is not zero")
	}
}

// withoutEncodingJSON makes the test run as in a plugin in which no type
// requires encoding/json.
func withoutEncodingJSON(t *testing.T) {
	t.Helper()
	before := fallback
	t.Cleanup(func() { fallback = before })
	fallback.decode, fallback.encode = nil, nil
}

func TestEncodingJSONIsUsedWhereNothingWasGenerated(t *testing.T) {
	type plain struct{ A int }
	for name, c := range map[string]struct {
		link func()
		used bool
	}{
		"types without a codec":    {requireAll[plain, plain], true},
		"types that need none":     {requireAll[struct{}, string], true},
		"generated types":          {requireAll[Duration, Duration], false},
		"a generated type":         {requireAll[Duration, struct{}], false},
		"one type without a codec": {requireAll[Duration, plain], true},
	} {
		t.Run(name, func(t *testing.T) {
			withoutEncodingJSON(t)
			c.link()
			if used := fallback.encode != nil && fallback.decode != nil; used != c.used {
				t.Errorf("encoding/json is used: %v", used)
			}
		})
	}
}

func TestNothingIsReadIntoAValue(t *testing.T) {
	for _, linked := range []bool{false, true} {
		withoutEncodingJSON(t)
		if linked {
			UseEncodingJSON()
		}
		for want, into := range map[string]any{
			"nothing can be read into nil: pass a pointer":                             nil,
			"nothing can be read into a string: pass a pointer to it":                  "",
			"nothing can be read into a map[string]interface {}: pass a pointer to it": map[string]any{},
			"nothing can be read into a []string: pass a pointer to it":                []string{},
			"nothing can be read into a json.RawMessage: pass a pointer to it":         Raw(nil),
			"nothing can be read into a struct { A int }: pass a pointer to it":        struct{ A int }{},
		} {
			if err := Decode([]byte(`{}`), into); err == nil || err.Error() != want {
				t.Errorf("error = %v, want %q", err, want)
			}
		}
	}
}

func TestTypeWithoutCodecIsAnError(t *testing.T) {
	withoutEncodingJSON(t)
	want := "type map[string]interface {} has no codec, and encoding/json is not linked: run `thole generate` for the package that passes it to the SDK"
	if _, err := encode(map[string]any{}); err == nil || err.Error() != want {
		t.Errorf("encode: %v", err)
	}
	if err := warm(map[string]any{}); err == nil || err.Error() != want {
		t.Errorf("warm: %v", err)
	}
	var into struct{ A int }
	if err := decode([]byte(`{"A":1}`), &into); err == nil || !strings.Contains(err.Error(), "type *struct { A int } has no codec") {
		t.Errorf("decode: %v", err)
	}
	var list []struct{ A int }
	if err := decode([]byte(`[]`), &list); err == nil {
		t.Error("a slice of a type without codec is read")
	}
}

func TestPlainValuesNeedNoCodec(t *testing.T) {
	withoutEncodingJSON(t)
	for _, c := range []struct {
		value any
		into  any
		text  string
	}{
		{"a", new(string), `"a"`},
		{true, new(bool), `true`},
		{-1, new(int), `-1`},
		{int64(1) << 60, new(int64), `1152921504606846976`},
		{[]string{"a"}, new([]string), `["a"]`},
		{map[string]string{"b": "c", "a": ""}, new(map[string]string), `{"a":"","b":"c"}`},
		{Raw(`[1]`), new(Raw), `[1]`},
		{[]byte(`{}`), new(Raw), `{}`},
		{DurationOf(time.Second), new(Duration), `"1s"`},
		{FromInt(1), new(IntOrString), `1`},
		{nil, new(Raw), `null`},
		{[]IntOrString{FromInt(1), FromString("a")}, new([]IntOrString), `[1,"a"]`},
		{[]*IntOrString{new(IntOrString), nil}, new(Raw), `[0,null]`},
		{[]IntOrString{}, new([]IntOrString), `[]`},
		{[]IntOrString(nil), new([]IntOrString), `null`},
		{(*[]IntOrString)(nil), new(Raw), `null`},
		{(*string)(nil), new(Raw), `null`},
	} {
		text, err := encode(c.value)
		if err != nil || string(text) != c.text {
			t.Errorf("%v is written as %s, %v", c.value, text, err)
		}
		if err := decode(text, c.into); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if again, err := encode(c.into); err == nil && string(again) != c.text {
			t.Errorf("%s is read and written as %s", c.text, again)
		}
	}
}
