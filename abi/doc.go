// Package abi is the contract between the host and a plugin: the names and
// signatures of the thole/v1 functions, the messages that cross them, and
// their codec. SPEC.md beside this file is the normative text.
//
// The package imports nothing but the standard library and compiles under
// TinyGo, so that host, SDK and conformance kit share one implementation.
// It never touches Kubernetes types: objects are the bytes that the API
// server sent (see package rawjson).
package abi
