package module

import (
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi/tck"
)

func TestBlocksAreHeldTogether(t *testing.T) {
	for name, c := range map[string]struct {
		body []byte // without the function's own end
		want string // of the error; "" is none
	}{
		"nested":         {join(tck.Block, tck.Loop, tck.I32Const(1), tck.If, tck.Else, tck.End, tck.End, tck.End), ""},
		"stray else":     {tck.Else, "an else without an if"},
		"else in a loop": {join(tck.Loop, tck.Else, tck.End), "an else without an if"},
		"two elses":      {join(tck.I32Const(1), tck.If, tck.Else, tck.Else, tck.End), "an else without an if"},
		"stray end":      {tck.End, "behind the function's end"},
		"code behind":    {join(tck.End, tck.Nop), "behind the function's end"},
		"open block":     {tck.Block, "the function has no end"},
	} {
		var m tck.Module
		m.Func(nil, nil, nil, c.body)
		_, err := Parse(m.Bytes())
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestNamesOfImportsOnly: the added imports have their names also where no
// function follows them.
func TestNamesOfImportsOnly(t *testing.T) {
	var m tck.Module
	m.Import("thole/v1", "output", []tck.Type{tck.I32, tck.I32}, nil)
	tick := Import{Module: "thole", Name: "tick", Kind: Function}
	out, err := parse(t, m.Bytes()).Write(Additions{Imports: []Import{tick}})
	if err != nil {
		t.Fatal(err)
	}
	if names := strings.Join(parse(t, out).functionNames(), " "); names != "$0 thole.tick" {
		t.Errorf("names = %q", names)
	}
}
