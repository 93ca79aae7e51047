// Package openapi checks field paths against the schemas that the API server
// publishes (OpenAPI v3, KEP-2896).
//
// A path is unknown only if the schema shows it: where the schema leaves open what an
// object has (x-kubernetes-preserve-unknown-fields, a type without properties, a
// reference that leads nowhere), every path is possible. If the schema cannot be had,
// nothing is known.
//
// The documents are those of whoever serves the kind, such as an aggregated API
// server. One is held at a time, for the length of a check, as the text that was sent:
// its length, the number of its schemas and what is read of them are bounded.
//
//	schemas.go   Schemas, and the request of a document
//	document.go  the schemas of one document, and how a path leads through them
//	status.go    the schema of the status of a kind, which is kept
//	shape.go     what several schemas together state about a value
package openapi
