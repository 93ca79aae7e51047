// Package e2e tests thole as people run it: the program as a process of its
// own, plugins compiled by their real toolchains, against a real Kubernetes
// API server.
package e2e
