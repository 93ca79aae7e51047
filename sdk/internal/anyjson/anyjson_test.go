package anyjson_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/thole-dev/thole/sdk/internal/anyjson"
)

func TestNumbersKeepTheirValue(t *testing.T) {
	for text, want := range map[string]any{
		"0":                              int64(0),
		"-1":                             int64(-1),
		"9007199254740993":               int64(9007199254740993),
		"9223372036854775807":            int64(9223372036854775807),
		"-9223372036854775808":           int64(-9223372036854775808),
		"9223372036854775808":            json.Number("9223372036854775808"),
		"18446744073709551615":           json.Number("18446744073709551615"),
		"1.5":                            1.5,
		"1e3":                            1000.0,
		"1e400":                          json.Number("1e400"),
		`"9007199254740993"`:             "9007199254740993",
		"null":                           nil,
		"[9007199254740993,1.5]":         []any{int64(9007199254740993), 1.5},
		`{"a":{"b":[9007199254740993]}}`: map[string]any{"a": map[string]any{"b": []any{int64(9007199254740993)}}},
	} {
		var got any
		if err := anyjson.Unmarshal([]byte(text), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %#v, %v", text, got, err)
		}
		back, err := json.Marshal(got)
		if err != nil || string(back) != text && !strings.Contains(text, "e") {
			t.Errorf("%s is written as %s, %v", text, back, err)
		}
	}
}

type own struct{ text string }

func (o *own) UnmarshalJSON(data []byte) error {
	o.text = string(data)
	return nil
}

type inner struct {
	Next *inner                    `json:"next,omitempty"`
	Deep map[string]map[string]any `json:"deep,omitempty"`
}

type outer struct {
	inner
	Any     any            `json:"any,omitempty"`
	Map     map[string]any `json:"map,omitempty"`
	List    [][]any        `json:"list,omitempty"`
	Structs map[string]inner
	Pair    [2]any      `json:"pair"`
	Own     own         `json:"own"`
	Number  json.Number `json:"number"`
	Float   float64     `json:"float"`
	Skipped any         `json:"-"`
}

func TestValuesAreFoundInEveryType(t *testing.T) {
	const big = "9007199254740993"
	text := strings.ReplaceAll(`{"deep":{"a":{"b":BIG}},"next":{"deep":{"c":{"d":[BIG]}}},"any":{"x":BIG},"map":{"y":BIG},"list":[[BIG]],
		"Structs":{"z":{"deep":{"e":{"f":BIG}}}},"pair":[BIG,"p"],"own":BIG,"number":BIG,"float":2}`, "BIG", big)
	var got outer
	if err := anyjson.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	const n = int64(9007199254740993)
	want := outer{
		inner: inner{Deep: map[string]map[string]any{"a": {"b": n}}, Next: &inner{Deep: map[string]map[string]any{"c": {"d": []any{n}}}}},
		Any:   map[string]any{"x": n}, Map: map[string]any{"y": n}, List: [][]any{{n}},
		Structs: map[string]inner{"z": {Deep: map[string]map[string]any{"e": {"f": n}}}}, Pair: [2]any{n, "p"}, Own: own{big}, Number: big, Float: 2,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// What is in a value already is decoded into, as encoding/json does.
func TestAPointerInAnAnyIsDecodedInto(t *testing.T) {
	target := map[string]any{}
	var v any = &target
	if err := anyjson.Unmarshal([]byte(`{"a":9007199254740993}`), &v); err != nil || target["a"] != int64(9007199254740993) {
		t.Errorf("got %v, %v", target, err)
	}
}

func TestErrorsAreThoseOfEncodingJSON(t *testing.T) {
	for _, text := range []string{"", "{", `{} {}`, `{"a":1}x`, `[1,]`, `{"any":1,"float":"x"}`} {
		want := json.Unmarshal([]byte(text), new(outer))
		if got := anyjson.Unmarshal([]byte(text), new(outer)); got == nil || want == nil || reflect.TypeOf(got) != reflect.TypeOf(want) && text != "" && text != "{" {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	if err := anyjson.Unmarshal([]byte("{}"), nil); err == nil {
		t.Error("nil")
	}
	if err := anyjson.Unmarshal([]byte("{} \n"), new(outer)); err != nil {
		t.Errorf("space at the end: %v", err)
	}
}
