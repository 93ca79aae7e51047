// Package parts has parts of types.
package parts

// Part is a part.
type Part struct {
	// +kubebuilder:validation:Minimun=1
	A int `json:"a"`
	B any `json:"b"`
}

// Status is a status.
type Status struct {
	C chan int `json:"c"`
}
