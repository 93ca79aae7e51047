// Package charttest tests deploy/chart with Helm's own library. It is a module of its own, since Helm
// brings much with it.
//
// What the values in deploy/chart/testdata lead to is beside them, and is what the tests of
// host/internal/deploytest install: `go generate` renders it again, and deploy/kustomize with it.
package charttest

//go:generate go test -count=1 -run ^TestRendered -update
