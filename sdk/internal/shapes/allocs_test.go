package shapes

import (
	"testing"

	"github.com/thole-dev/thole/abi/rawjson"
)

// full has a text that fills each subject, without values that always need new memory:
// escapes, base64, and maps and slices as elements of maps.
var full = map[string]string{
	"Scalars":  `{"bool":true,"string":"a","int":-1,"uint":1,"int8":1,"uint64":18446744073709551615,"float32":1.5,"float64":2.5e-10}`,
	"Optional": `{"pointer":1,"slice":[1,2],"map":{"b":1,"a":2},"array":[1],"raw":{"a":[1, 2]},"strings":["a"],"texts":{"a":"b"}}`,
	"Zero":     `{"plain":{"X":1,"Y":2},"mixed":{"names":["a"],"point":{"X":1}},"own":2,"own2":3,"own3":4,"both":[1]}`,
	"Nested": `{"pointer":{"X":1},"twice":7,"slices":[["a"],["b","c"]],"pointers":[{"X":1}],` +
		`"array":[{"X":1},{"Y":2}],"matrix":[[1,2],[3,4]],"unnamed":{"a":1,"b":[{"c":"x"},{}]},"rawList":[1,{"a":1}]}`,
	"Named": `{"phase":"a","phases":["b","c"],"labels":{"x":"y"},"keys":{"p":"q"},"points":[{"X":1}],"index":{"i":{"Y":2}},"pair":["a","b"],` +
		`"flag":true,"count":7,"ratio":0.5,"aliases":[{"Y":1}],"box":{"content":{"X":1},"more":[{}]},"boxes":{"a":{"content":1,"more":null}}}`,
	"Embedding": `{"apiVersion":"v1","kind":"K","name":"n","count":1,"maybe":"m","sure":3,"inner":"i","Kept":6,"tagged":{"a":1},"Phase":"p",` +
		`"metadata":{"name":"x","labels":{"a":"b"},"ownerReferences":[{"uid":"u","controller":true}],"finalizers":["f"]}}`,
	"Tags":      `{"NoTag":1,"-":2,"UPPER":9,"noFields":{"x":1}}`,
	"Values":    `{"time":"2026-01-01T00:00:00Z","duration":"1h30m","port":8080,"ports":["http",1],"limit":"500m","wait":1000,"foreigns":[{"name":"p","number":1}]}`,
	"Tree":      `{"name":"r","left":{"name":"l"},"many":[{"name":"m"}],"named":{"a":null}}`,
	"List":      `[{"X":1},{"Y":2}]`,
	"Table":     `{"a":{"int":1}}`,
	"Word":      `"word"`,
	"Generated": `{"words":["a"],"load":{"p":{"number":2}}}`,
	"Compact":   compact,
	"Visiting":  `{"compact":` + compact + `,"part":{"count":1},"parts":[{"name":"a"},{}],"zero":{"name":"a"},"meta":{"name":"m"}}`,
	"Visited":   `{"visited":{"name":"n","words":["a"]}}`,
}

const compact = `{"name":"n","count":1,"bool":true,"int8":-1,"words":["a","b"],"texts":{"a":"b"},"part":{"time":"t"},"maybe":{"name":"m"},` +
	`"list":[{},{"count":2}],"port":"http","metadata":{"labels":{"a":"b"}},"other":{"name":"o"},` +
	`"empty":{"flag":true,"int64":1,"numbers":[1,2],"maybe":1,"perhaps":false,"selector":{"matchLabels":{}}},"zero":{"maybe":"","other":{"words":["a"]}}}`

// reader is the number of allocations for any text: the reader and its path.
const reader = 2

// visitors is the number of visitors for a subject with compact codecs.
var visitors = map[string]float64{"Compact": 1, "Visiting": 5, "Visited": 1}

// TestFilledValueIsReadWithoutAllocation: a value that has its slices, maps and pointers
// already is filled without more memory.
func TestFilledValueIsReadWithoutAllocation(t *testing.T) {
	for _, s := range Subjects {
		text := []byte(full[s.Name])
		v := s.New()
		if err := Decode(text, v); err != nil {
			t.Fatalf("%s: %v", s.Name, err)
		}
		got := testing.AllocsPerRun(100, func() {
			r := rawjson.NewReader(text)
			v.DecodeJSON(r)
		})
		if got > reader+visitors[s.Name] {
			t.Errorf("%s: %v allocations", s.Name, got)
		}
	}
}

// TestWritingAllocatesOnlyTheBuffer: the buffer is large enough here.
func TestWritingAllocatesOnlyTheBuffer(t *testing.T) {
	for _, s := range Subjects {
		if s.Name == "Values" { // its types have methods that return new memory
			continue
		}
		v := s.New()
		if err := Decode([]byte(full[s.Name]), v); err != nil {
			t.Fatalf("%s: %v", s.Name, err)
		}
		buffer := make([]byte, 0, 4096)
		// A copy of what is appended escapes to the visitor, too.
		if got := testing.AllocsPerRun(100, func() { _, _ = v.AppendJSON(buffer) }); got > 2*visitors[s.Name] {
			t.Errorf("%s: %v allocations", s.Name, got)
		}
	}
}
