package effect

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/thole-dev/thole/abi/rawjson"
)

// jsonValue draws a JSON value and a second text of the same value, its
// members in another order and with white space.
func jsonValue(t *rapid.T, depth int) (a, b string) {
	choice := rapid.IntRange(0, 5).Draw(t, "kind")
	if depth == 0 {
		choice %= 4
	}
	switch choice {
	case 0:
		s := string(rawjson.AppendString(nil, rapid.String().Draw(t, "string")))
		return s, s + "\n"
	case 1:
		return "null", " null"
	case 2:
		return "true", "true "
	case 3:
		// Each in one spelling: 0 and -0 are one value, and two digests.
		n := rapid.StringMatching(`0|-?(0\.[0-9]{0,2}[1-9]|[1-9][0-9]{0,20}(\.[0-9]{0,2}[1-9])?)`).Draw(t, "number")
		return n, n
	case 4:
		a, b = "[", " [ "
		for i := range rapid.IntRange(0, 3).Draw(t, "length") {
			x, y := jsonValue(t, depth-1)
			if i > 0 {
				a, b = a+",", b+" , "
			}
			a, b = a+x, b+y
		}
		return a + "]", b + "]"
	default:
		names := rapid.SliceOfDistinct(rapid.String(), func(s string) string { return s }).Draw(t, "names")
		return jsonObject(t, depth, names)
	}
}

func jsonObject(t *rapid.T, depth int, names []string) (a, b string) {
	var as, bs []string
	for _, n := range names {
		x, y := jsonValue(t, depth-1)
		name := string(rawjson.AppendString(nil, n))
		as, bs = append(as, name+":"+x), append(bs, name+" : "+y)
	}
	rand.Shuffle(len(bs), func(i, j int) { bs[i], bs[j] = bs[j], bs[i] })
	join := func(parts []string, comma string) (s string) {
		for i, p := range parts {
			if i > 0 {
				s += comma
			}
			s += p
		}
		return s
	}
	return "{" + join(as, ",") + "}", "{ " + join(bs, " , ") + "}"
}

func TestDigestIsOfTheValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := jsonValue(t, 3)
		c, _ := jsonValue(t, 3)
		da, err := sum([]byte(a))
		if err != nil {
			t.Fatalf("%s: %v", a, err)
		}
		db, err := sum([]byte(b))
		if err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		dc, err := sum([]byte(c))
		if err != nil {
			t.Fatalf("%s: %v", c, err)
		}
		if da != db {
			t.Fatalf("%s and %s differ", a, b)
		}
		if (da == dc) != rawjson.Equal([]byte(a), []byte(c)) {
			t.Fatalf("%s and %s", a, c)
		}
	})
}

func TestDigestOfABody(t *testing.T) {
	digest := func(text string) digest {
		d, err := sumBody([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	base := digest(`{"metadata":{"name":"x"},"spec":{"status":1,"metadata":{"generation":1}}}`)
	for text, same := range map[string]bool{
		`{"metadata":{"name":"x","resourceVersion":"1","generation":3,"managedFields":[{}]},"status":{"a":1},"spec":{"status":1,"metadata":{"generation":1}}}`: true,
		`{"metadata":{"name":"x"},"spec":{"status":2,"metadata":{"generation":1}}}`:                                                                            false,
		`{"metadata":{"name":"x"},"spec":{"status":1,"metadata":{"generation":2}}}`:                                                                            false,
		`{"metadata":{"name":"x","labels":{}},"spec":{"status":1,"metadata":{"generation":1}}}`:                                                                false,
	} {
		if (digest(text) == base) != same {
			t.Errorf("same is not %v: %s", same, text)
		}
	}
	if _, err := sum([]byte(`{"a":`)); err == nil {
		t.Error("took half a text")
	}
}

func TestCovers(t *testing.T) {
	const fields = `{"f:metadata":{"f:labels":{"f:a":{}},"f:ownerReferences":{"k:{\"uid\":\"u\"}":{}}},
"f:spec":{"f:atomic":{},"f:set":{"v:\"x\"":{},"v:2":{}},"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{},"f:name":{}}},"f:empty":{}}}`
	for value, want := range map[string]bool{
		`{"metadata":{"labels":{"a":"1"}}}`:                              true,
		`{"metadata":{"labels":{"a":"1","b":"2"}}}`:                      false,
		`{"metadata":{"ownerReferences":[{"uid":"u","name":"any"}]}}`:    true,
		`{"metadata":{"ownerReferences":[{"uid":"u"},{"uid":"v"}]}}`:     false,
		`{"spec":{"atomic":[{"any":["thing"]}]}}`:                        true,
		`{"spec":{"set":["x",2]}}`:                                       true,
		`{"spec":{"set":["x","2"]}}`:                                     false,
		`{"spec":{"ports":[{"port":80,"name":"n"}]}}`:                    true,
		`{"spec":{"ports":[{"port":80,"name":"n","protocol":"UDP"}]}}`:   false,
		`{"spec":{"ports":[{"port":80,"name":"n","target":1}]}}`:         false,
		`{"spec":{"ports":[{"port":81}]}}`:                               false,
		`{"spec":{"ports":[{"port":80}, {"port":80,"protocol":"UDP"}]}}`: false,
		`{"spec":{"empty":{}}}`:                                          true,
		`{"spec":{"absent":{}}}`:                                         false,
		`{"spec":{"absent":null}}`:                                       true,
		`{"spec":{"set":"scalar"}}`:                                      false,
		`{"spec":{"ports":[5]}}`:                                         false,
		`{}`:                                                             true,
	} {
		if got := covers([]byte(fields), []byte(value)); got != want {
			t.Errorf("%s: got %v", value, got)
		}
	}
}
