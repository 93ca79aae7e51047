// Package api has types of a plugin whose program is another package.
package api

// The spec, and what is part of it.
type (
	Spec struct{ Part Part }
	Part struct{ A int }
)

// Object is passed to the SDK by the program.
type Object struct{ A int }

// Unused is not.
type Unused struct{ A int }
