// Command recursive has types that contain themselves.
package main

import "github.com/thole-dev/thole/sdk"

func init() {
	sdk.Register(sdk.Controller[Spec, Status]{Name: "recursive", For: sdk.Kind{APIVersion: "example.com/v1", Kind: "Tree"}})
}

// Spec has a tree.
type Spec struct {
	Root Node `json:"root"`
}

// Node has children.
type Node struct {
	Children []Node `json:"children,omitempty"`
}

// Status has a longer way to itself.
type Status struct {
	Left *Branch `json:"left,omitempty"`
}

// Branch is a part of the way.
type Branch struct {
	Leaves map[string]Leaf `json:"leaves,omitempty"`
}

// Leaf is the end of the way.
type Leaf struct {
	Back *Branch `json:"back,omitempty"`
}

func main() {}
