// Package tholetest runs the program thole for tests that observe it from
// outside: by its log, its probes, metrics and /plugins, and its requests to the
// API server.
//
// Tests of other modules import it too, with other versions of the Kubernetes
// libraries, so it uses few of those.
package tholetest
