// Package parts has types that another package's types are made of.
package parts

// Port is a struct of another package, with a field that is not seen.
type Port struct {
	Name   string `json:"name,omitempty"`
	Number uint16 `json:"number"`
	hidden []int
}

// Hidden keeps the field that is not seen in use.
func (p Port) Hidden() int { return len(p.hidden) }

// Level is a number of another package.
type Level int8

// Wide embeds what is not exported.
type Wide struct {
	Own string `json:"own,omitempty"`
}

// Generated has its codec in its own package.
//
//thole:generate
type Generated struct {
	Words []string          `json:"words,omitempty"`
	Load  map[string]Port   `json:"load,omitempty"`
	Extra map[Name]*float32 `json:"extra,omitempty"`
}

// Name is a string that is a key.
type Name string
