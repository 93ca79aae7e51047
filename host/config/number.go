package config

import (
	"errors"
	"fmt"
	"slices"
)

// number is one of the numbers and durations of a [Config] or of [Limits].
type number struct {
	path                  string // in the file
	value                 float64
	standard, least, most float64
	set                   func(float64)
	text                  func(float64) string // as people write the value
}

func (n number) fits(value float64) error {
	if value < n.least || value > n.most {
		return fmt.Errorf("%s: %s is not between %s and %s", n.path, n.text(value), n.text(n.least), n.text(n.most))
	}
	return nil
}

func numeric[T ~int | ~int64 | ~float32](path string, field *T, standard, least, most T) number {
	return number{
		path: path, value: float64(*field),
		standard: float64(standard), least: float64(least), most: float64(most),
		set:  func(v float64) { *field = T(v) },
		text: func(v float64) string { return fmt.Sprint(T(v)) },
	}
}

// written refuses a zero that somebody has written: it is no value of a number,
// and would be its default.
func written(zeros []string, numbers []number) error {
	var problems []error
	for _, n := range numbers {
		if err := n.fits(0); err != nil && slices.Contains(zeros, n.path) {
			problems = append(problems, fmt.Errorf("%w; leave it out for the default", err))
		}
	}
	return errors.Join(problems...)
}
