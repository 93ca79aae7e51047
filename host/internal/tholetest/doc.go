// Package tholetest runs the program thole for tests that look at it from
// outside: its log, its probes and metrics, and what it asks of the API server.
//
// It is imported by tests of modules with other versions of the Kubernetes
// libraries, too, so it uses few of them.
package tholetest
