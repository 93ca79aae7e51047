// Package kubernetes is the folder of the types of those kinds of Kubernetes that plugins
// write most. Each kind has a package of its own, with its name in lower case, so that a
// plugin contains only what it imports:
//
//	d := deployment.New(r.ChildName("web"))
//	d.Spec = deployment.Spec{
//		Replicas: new(int32(2)),
//		Selector: &sdk.LabelSelector{MatchLabels: labels},
//		Template: pod.TemplateSpec{
//			Metadata: sdk.ObjectMeta{Labels: labels},
//			Spec:     pod.Spec{Containers: []pod.Container{{Name: "web", Image: r.Spec.Image}}},
//		},
//	}
//	r.Apply(d)
//
// Kind is the kind, for Owns and Reads of a controller and for references:
// deployment.Kind.Ref(r.Namespace, name).
//
// The fields are those of the Kubernetes API reference, and pointers where they are
// pointers in k8s.io/api: where zero is not the same as absent. A field without a value
// is left out, so that a plugin owns nothing by server-side apply that it has not set.
//
// Names of types do not repeat the kind: DeploymentSpec is deployment.Spec. In package
// pod this holds for Spec, Status, Condition and TemplateSpec; the other names are those
// of Kubernetes, as PodSecurityContext is not SecurityContext. A type that several kinds
// have is in the package of the one that it is about, or in package shared.
//
// Comments such as +required and +listType=map are for `thole generate crd`: in the CRD of
// a kind whose spec has such a type, the same members are required and have the same
// defaults as in the API of Kubernetes, and lists and maps are merged by server-side apply
// in the same way.
//
// Metadata is [github.com/thole-dev/thole/sdk.ObjectMeta], which has no managedFields
// and no generateName. Members that the types do not have are ignored. To change an
// object that others write, apply only the fields that are yours, and not the object
// that was read.
//
// The codec of the types is compact: see package
// [github.com/thole-dev/thole/sdk/generate]. For a plugin that reads many objects, a
// struct of its own with the few fields that it uses is faster, and smaller.
package kubernetes

//go:generate go run github.com/thole-dev/thole/cmd/thole-tools generate ./...
