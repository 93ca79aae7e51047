// Package apimachinerytest compares what package sdk has of Kubernetes with
// k8s.io/apimachinery: selectors and names. A plugin that TinyGo has compiled
// computes them, because neither the SDK nor its tests may import that module.
package apimachinerytest
