// Package kubernetestypes generates the packages of sdk/kubernetes: the types of the
// kinds that plugins write most.
//
// The types and their fields come from the OpenAPI of a running API server. It has no
// names for Go, and does not tell for which fields zero is not the same as absent. Both
// are taken from k8s.io/api, which many authors know: a field is a pointer where it is
// one there. Descriptions are not copied. What is required, has a default, or is merged by
// server-side apply is written as markers, for the CRDs of kinds whose specs have the types.
//
// `thole generate` writes the codec of the types afterwards.
package kubernetestypes

//go:generate go test -count=1 -run=^TestTypesAreThoseOfTheAPIServer$ . -update
