package author

import (
	"github.com/thole-dev/thole/sdk"
)

// Read other objects, Follow only what you need, Run when another object changes.

func init() {
	register(siteKind, "reads", readObjects,
		sdk.Controller[Spec, Status]{
			Reads: []sdk.Kind{configMap, podKind},
		})
	register(siteKind, "read-less", readLess,
		sdk.Controller[Spec, Status]{
			Reads: []sdk.Kind{podKind},
		})
	register(siteKind, "field", findByField,
		sdk.Controller[Spec, Status]{
			Reads: []sdk.Kind{podKind},
			Indexes: []sdk.Index{
				{Name: "by-node", Kind: podKind, Field: "spec.nodeName"},
				{Name: "by-secret", Kind: podKind, Field: "spec.volumes[*].secret.secretName"},
			},
		})
	register(siteKind, "key", findByKey,
		sdk.Controller[Spec, Status]{
			Reads:   []sdk.Kind{podKind},
			Indexes: []sdk.Index{bySite},
		})
	register(siteKind, "select", readSelected,
		sdk.Controller[Spec, Status]{
			For:   siteKind,
			Reads: []sdk.Kind{podKind, secretKind, nodeKind},
			Select: sdk.Select(
				sdk.Followed{Kind: siteKind, Selector: sdk.Selector{LabelSelector: "example.com/shard=a"}},
				sdk.Followed{Kind: podKind, Selector: sdk.Selector{FieldSelector: "spec.nodeName=node-1"}},
				sdk.Followed{Kind: secretKind, Selector: sdk.Selector{Namespaces: []string{"certificates"}}},
				sdk.Followed{Kind: nodeKind, Selector: sdk.Selector{MetadataOnly: true}},
			),
		})
	register(siteKind, "watches", readWatched,
		sdk.Controller[Spec, Status]{
			Watches: []sdk.Watch{
				{Followed: podKind.All(), By: sdk.ByOwner},                                     // Pods with an owner reference to the object
				{Followed: jobKind.All(), By: sdk.ByLabel, Key: "example.com/site"},            // its value is the object's name
				{Followed: nodeKind.All(), By: sdk.ByAnnotation, Key: "example.com/site"},      // the name, or namespace/name
				{Followed: secretKind.All(), By: sdk.ByField, Field: "spec.tls[*].secretName"}, // the object names the Secret
			},
		})
}

func readObjects(r *request) (sdk.Action, error) {
	var settings ConfigMap
	err := r.Get(configMap.Ref(r.Namespace, "settings"), &settings)
	if err != nil {
		return sdk.Action{}, err
	}
	found(r, settings.Data["theme"])

	var pods []Pod
	err = r.List(sdk.Query{Kind: podKind, LabelSelector: "app=web"}, &pods)
	foundPods(r, pods...)
	return sdk.AwaitChange(), err
}

func readLess(r *request) (sdk.Action, error) {
	var pod Pod
	err := r.Get(podKind.Ref("", "web"), &pod, sdk.Fields("/status/phase"))
	if err != nil {
		return sdk.Action{}, err
	}
	r.Status.Phase = pod.Status.Phase

	for pod, err := range sdk.Pages[Pod](r.Run, sdk.Query{Kind: podKind}, 500, sdk.Fields("metadata", "/spec/nodeName")) {
		if err != nil {
			return sdk.Action{}, err
		}
		r.Status.Nodes = append(r.Status.Nodes, pod.Spec.NodeName)
	}
	return sdk.AwaitChange(), nil
}

func findByField(r *request) (sdk.Action, error) {
	var pods []Pod
	node := "node-1"
	err := r.List(sdk.Query{Kind: podKind, FieldSelector: "spec.nodeName=" + node}, &pods)
	foundPods(r, pods...)
	return sdk.AwaitChange(), err
}

var bySite = sdk.IndexBy("by-site", podKind, func(x *sdk.Indexing) error {
	var pod Pod
	if err := x.Object(&pod); err != nil {
		return err
	}
	if site := pod.Metadata.Labels["site"]; site != "" && pod.Status.Phase == "Running" {
		x.Add(site, pod.Status.PodIP)
	}
	return nil
})

func findByKey(r *request) (sdk.Action, error) {
	pods, err := r.Lookup(sdk.IndexQuery{Index: bySite.Name, Key: r.Name})
	for _, p := range pods {
		found(r, p.Name+" "+string(p.Value))
	}
	return sdk.AwaitChange(), err
}

// readSelected finds the pods of the node.
func readSelected(r *request) (sdk.Action, error) {
	var secret Secret
	if err := r.Get(secretKind.Ref("certificates", "tls"), &secret); err != nil {
		return sdk.Action{}, err
	}
	found(r, secret.Metadata.Name)
	return findByField(r)
}

// readWatched finds the pods of the object.
func readWatched(r *request) (sdk.Action, error) {
	var pods []Pod
	err := r.List(sdk.Query{Kind: podKind}, &pods)
	foundPods(r, pods...)
	return sdk.AwaitChange(), err
}
