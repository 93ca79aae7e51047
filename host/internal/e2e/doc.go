// Package e2e tests thole as its users run it: the program as a process of its
// own, plugins compiled by their real toolchains, and a real Kubernetes API server.
package e2e
