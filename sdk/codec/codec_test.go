package codec_test

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/sdk/codec"
)

func TestWithinPrefixesPath(t *testing.T) {
	bad := errors.New("bad")
	for _, c := range []struct {
		err  error
		want string
	}{
		{codec.Within("a", bad), "a: bad"},
		{codec.Within("a", codec.Within("b", bad)), "a.b: bad"},
		{codec.Within("a", codec.WithinElement(2, codec.Within("b", bad))), "a[2].b: bad"},
		{codec.Within("a", codec.WithinKey("x.y", codec.WithinElement(0, bad))), `a["x.y"][0]: bad`},
		{codec.WithinElement(1, codec.ErrDepth), "[1]: nested too deeply, or contains itself"},
		{codec.Within("a", &rawjson.Error{Path: "b[1]", Offset: 7, Message: "bad"}), "a.b[1]: bad"},
	} {
		if c.err.Error() != c.want {
			t.Errorf("the error is %v, expected %s", c.err, c.want)
		}
	}
	if err := codec.Within("a", nil); err != nil {
		t.Errorf("Within of no error is %v", err)
	}
}

func TestFloatsAreWrittenAsInEncodingJSON(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		f := math.Float64frombits(random.Uint64())
		expectFloat(t, f, 64, f)
		g := math.Float32frombits(random.Uint32())
		expectFloat(t, float64(g), 32, g)
	}
	for _, f := range []float64{0, math.Copysign(0, -1), 1e-6, 9.999999e-7, 1e21, 9.99999999e20, 1e-10, 1e100, -1e-7, math.MaxFloat64, math.SmallestNonzeroFloat64} {
		expectFloat(t, f, 64, f)
		expectFloat(t, float64(float32(f)), 32, float32(f))
	}
}

func expectFloat(t *testing.T, f float64, bits int, same any) {
	t.Helper()
	want, jsonErr := json.Marshal(same)
	got, err := codec.AppendFloat(nil, f, bits)
	if (err == nil) != (jsonErr == nil) || err == nil && string(got) != string(want) {
		t.Errorf("%v of %d bits is written as %s, %v; encoding/json: %s, %v", f, bits, got, err, want, jsonErr)
	}
}

func TestKeysAreSorted(t *testing.T) {
	for n := range 200 {
		m := map[string]int{}
		for i := range n {
			m[strconv.Itoa(i*7919%1000)] = i
		}
		if keys := codec.Keys(m, nil); len(keys) != len(m) || !slices.IsSorted(keys) {
			t.Errorf("the keys of %d are %q", n, keys)
		}
	}
}

func TestSmallMapsAreWrittenWithoutAllocation(t *testing.T) {
	m := map[string]string{}
	for i := range codec.SmallMap {
		m[strconv.Itoa(i)] = "x"
	}
	buffer := make([]byte, 0, 4096)
	if n := testing.AllocsPerRun(100, func() { codec.AppendStringMap(buffer, m) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestAppendRawRejectsInvalidJSON(t *testing.T) {
	for text, want := range map[string]string{`{"a": 1}`: `{"a": 1}`, `null`: `null`} {
		if got, err := codec.AppendRaw(nil, []byte(text)); err != nil || string(got) != want {
			t.Errorf("%s is written as %s, %v", text, got, err)
		}
	}
	if got, err := codec.AppendRaw(nil, nil); err != nil || string(got) != "null" {
		t.Errorf("nil is written as %s, %v", got, err)
	}
	for _, text := range []string{``, `{`, `1 2`} {
		if got, err := codec.AppendRaw([]byte("x"), []byte(text)); err == nil || string(got) != "x" {
			t.Errorf("%q is written as %s, %v", text, got, err)
		}
	}
}
