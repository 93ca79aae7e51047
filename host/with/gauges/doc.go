// Package gauges is the capability by which the host counts the objects of a controller by the values of a field
// (abi/gauges/SPEC.md).
//
//	capability.go the declaration, and the gauges of each controller
//	count.go      what is counted, and how often
//	metrics.go    the metric, which is collected when it is read
package gauges
