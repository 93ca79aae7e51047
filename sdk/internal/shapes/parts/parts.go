// Package parts has types that the types of package shapes consist of.
package parts

// Port is a struct of another package, with a field that is not exported.
type Port struct {
	Name   string `json:"name,omitempty"`
	Number uint16 `json:"number"`
	hidden []int
}

// Hidden uses the field that is not exported.
func (p Port) Hidden() int { return len(p.hidden) }

// Level is a number of another package.
type Level int8

// Wide is a struct of another package with an optional field.
type Wide struct {
	Own string `json:"own,omitempty"`
}

// Generated has a codec of its own package.
//
//thole:generate
type Generated struct {
	Words []string          `json:"words,omitempty"`
	Load  map[string]Port   `json:"load,omitempty"`
	Extra map[Name]*float32 `json:"extra,omitempty"`
}

// Name is a string type for keys.
type Name string

// Compact is a type with a compact codec.
//
//thole:compact
type Compact struct {
	Visited Visited `json:"visited"`
}

// Visited has only the method of a compact codec that other structs need.
type Visited struct {
	Name  Name     `json:"name"`
	Words []string `json:"words,omitempty"`
}
