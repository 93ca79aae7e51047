// Command types has types without a schema.
package main

import (
	"encoding/json"
	"net/url"

	"github.com/thole-dev/thole/sdk"
)

func init() {
	sdk.Register(sdk.Controller[Spec, Status]{Name: "types", For: sdk.Kind{APIVersion: "example.com/v1", Kind: "Type"}})
}

// Spec has one mistake in each field.
type Spec struct {
	Any      any                        `json:"any"`
	Embedded interface{ Name() string } `json:"embedded"`
	Map      map[int]string             `json:"map"`
	Values   map[string]any             `json:"values"`
	Channel  chan int                   `json:"channel"`
	Unnamed  struct{ A int }            `json:"unnamed"`
	Untagged string
	Base
	Generic Pair[int]   `json:"generic"`
	Number  json.Number `json:"number"`
	URL     *url.URL    `json:"url"`
	Complex complex128  `json:"complex"`
}

// Base is embedded without a tag.
type Base struct {
	Name string `json:"name"`
}

// Pair has a type parameter.
type Pair[T any] struct {
	First T `json:"first"`
}

// Status has none.
type Status struct{}

func main() {}
