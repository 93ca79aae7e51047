package rawjson

import "testing"

func TestEqualIgnoresNotation(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{`{"a":1,"b":[true,null]}`, ` { "b" : [ true , null ] , "a" : 1 } `, true},
		{`{"a":1,"b":2,"c":3}`, `{"b":2,"c":3,"a":1}`, true},
		{`{"a":1}`, `{"a":1,"b":null}`, false},
		{`{"a":1,"b":2}`, `{"a":1,"c":2}`, false},
		{`[1,2]`, `[2,1]`, false},
		{`[1]`, `[1,1]`, false},
		{`[1,1]`, `[1]`, false},
		{`{}`, `[]`, false},
		{`"\u0061\/"`, `"a/"`, true},
		{`"a"`, `"A"`, false},
		{`true`, `false`, false},
		{`null`, `null `, true},
		{`{"a":1,"a":1}`, `{"a":1, "a":1}`, false}, // readers disagree about its value
		{`{"a":1,"a":1}`, `{"a":1,"a":1}`, true},
		{`x`, `y`, false},
		{`1`, `"1"`, false},
		{`1`, `1.0`, true},
		{`1000000`, `1e6`, true},
		{`1E+6`, `1e6`, true},
		{`0.1`, `1e-1`, true},
		{`0`, `-0.0e5`, true},
		{`-1`, `1`, false},
		{`120`, `12e1`, true},
		{`9007199254740993`, `9007199254740992`, false},
		{`1e400`, `1e401`, false},
		{`1e99999999999`, `1e99999999999 `, true},
		{`1e99999999999`, `10e99999999998`, false}, // equal, but the exponent is too large to compare
	} {
		if got := Equal([]byte(c.a), []byte(c.b)); got != c.want {
			t.Errorf("Equal(%s, %s) is %v", c.a, c.b, got)
		}
		if got := Equal([]byte(c.b), []byte(c.a)); got != c.want {
			t.Errorf("Equal(%s, %s) is %v", c.b, c.a, got)
		}
	}
}
