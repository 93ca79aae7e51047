package page

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

// cell is a number in a table.
type cell struct {
	Label, Text string
	Faint, Bad  bool
}

// number returns a cell that is faint if there is nothing to see in it.
func number(label string, value any) cell {
	text := fmt.Sprint(value)
	return cell{Label: label, Text: text, Faint: strings.Trim(text, "0.s–") == ""}
}

// failing returns the cell of a number of objects that should be none.
func failing(n int) cell {
	c := number("Failing", n)
	c.Bad = n > 0
	return c
}

// age returns how long ago a time was, as kubectl shows it.
func age(now, at time.Time) string { return duration.HumanDuration(max(0, now.Sub(at))) }

// took returns a duration with three digits at most.
func took(d time.Duration) string {
	for unit := time.Duration(1); unit < time.Hour; unit *= 10 {
		if d < 1000*unit {
			return d.Round(unit).String()
		}
	}
	return d.Round(time.Second).String()
}

// rate returns how often something happens in a second; known is false if nobody has counted for long enough.
func rate(known bool, perSecond float64) string {
	if !known {
		return "–"
	}
	return strconv.FormatFloat(perSecond, 'f', 1, 64)
}

// one returns a noun that agrees with a number.
func one(n int, singular, plural string) string {
	if n == 1 {
		return singular
	}
	return plural
}
