package gauges

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/thole-dev/thole/host/cache/objects"
)

func TestTheValuesOfAGaugeAreBounded(t *testing.T) {
	many := map[string]int{}
	for i := range 100 {
		many[fmt.Sprintf("v%02d", i)] = 1 + i/90 // the last ten twice
	}
	bounded := map[string]int{"": 0, "other": 100 - 32}
	for i := range 22 {
		bounded[fmt.Sprintf("v%02d", i)] = 1
	}
	for i := 90; i < 100; i++ {
		bounded[fmt.Sprintf("v%02d", i)] = 2
	}
	long := strings.Repeat("x", maxValue)
	for name, c := range map[string]struct {
		counts objects.Counts
		want   map[string]int
	}{
		"no objects":             {objects.Counts{}, map[string]int{"": 0}},
		"without a value":        {objects.Counts{Without: 3, ByValue: map[string]int{"": 2, "Running": 1}}, map[string]int{"": 5, "Running": 1}},
		"with too many":          {objects.Counts{Other: 2}, map[string]int{"": 0, "other": 2}},
		"long":                   {objects.Counts{ByValue: map[string]int{long: 1, long + "x": 2}}, map[string]int{"": 0, long: 1, "other": 2}},
		"not printable":          {objects.Counts{ByValue: map[string]int{"a\nb": 1, "a\x00": 1, "\xff": 1, "\u202e": 1, "größer als": 1}}, map[string]int{"": 0, "größer als": 1, "other": 4}},
		"other by its own value": {objects.Counts{Other: 1, ByValue: map[string]int{"other": 4}}, map[string]int{"": 0, "other": 5}},
		"many values":            {objects.Counts{ByValue: many}, bounded},
	} {
		t.Run(name, func(t *testing.T) {
			if got := boundValues(c.counts); !maps.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
