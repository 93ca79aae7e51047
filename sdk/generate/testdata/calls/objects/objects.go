// Package objects has types that plugins of other packages use.
package objects

// Marked has a codec.
//
//thole:generate
type Marked struct{ A int }

// Unmarked has none.
type Unmarked struct{ A int }
