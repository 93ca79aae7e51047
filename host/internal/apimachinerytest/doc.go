// Package apimachinerytest compares what package sdk has of Kubernetes with
// k8s.io/apimachinery, selectors and names, and the types of sdk/kubernetes with those
// of k8s.io/api. Plugins that TinyGo has compiled compute with them, because neither the
// SDK nor its tests may import these modules.
package apimachinerytest
