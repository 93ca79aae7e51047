package author

import (
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/children"
	"github.com/thole-dev/thole/sdk/kubernetes/configmap"
	"github.com/thole-dev/thole/sdk/kubernetes/deployment"
	"github.com/thole-dev/thole/sdk/kubernetes/pod"
	"github.com/thole-dev/thole/sdk/kubernetes/service"
)

// Apply a child object, Adopt and release objects.

func init() {
	register(siteKind, "apply", applyChild,
		sdk.Controller[Spec, Status]{
			Owns: []sdk.Kind{configmap.Kind},
		})
	register(siteKind, "options", applyWithOptions,
		sdk.Controller[Spec, Status]{
			Owns: []sdk.Kind{podKind, jobKind},
		})
	register(siteKind, "groups", applyGroups,
		sdk.Controller[Spec, Status]{
			Owns:       []sdk.Kind{podKind, service.Kind},
			Conditions: sdk.Conditions{Owned: []string{"PodsFailed"}, NegativePolarity: []string{"PodsFailed"}},
		})
	register(siteKind, "prune", pruneUnnamed,
		sdk.Controller[Spec, Status]{
			Owns: []sdk.Kind{deployment.Kind}, Prune: true,
		})
	register(siteKind, "adopt", adopt,
		sdk.Controller[Spec, Status]{
			Owns:  []sdk.Kind{podKind},
			Reads: []sdk.Kind{podKind},
		})
}

func applyChild(r *request) (sdk.Action, error) {
	child := configmap.New(r.Name)
	child.Data = map[string]string{"greeting": "hello"}
	r.Apply(child)
	return sdk.AwaitChange(), nil
}

func applyWithOptions(r *request) (sdk.Action, error) {
	surplus := podKind.Ref(r.Namespace, "surplus")
	var seen Pod
	if err := r.Get(surplus, &seen); err != nil {
		return sdk.Action{}, err
	}
	pod, job := newPod, newJob
	r.Apply(pod(r.UniqueName(r.Name+"-")), children.Create())
	r.Apply(job(r.ChildName("migrate")), children.Replace())
	r.Delete(surplus, children.AtVersion(seen.Metadata.ResourceVersion), children.GracePeriod(0))
	return sdk.AwaitChange(), nil
}

func applyGroups(r *request) (sdk.Action, error) {
	missing := []pod.Pod{newPod(r.ChildName("a")), newPod(r.ChildName("b"))}
	service := service.New(r.Name)
	pods := children.Group{Name: "pods", Condition: "PodsFailed"}
	pods.Declare(r.Run)
	for _, pod := range missing {
		pods.Apply(r.Run, pod)
		pods.Event(r.Run, sdk.Normal, "Created", pod.Metadata.Name)
	}
	r.Apply(service)
	return sdk.AwaitChange(), nil
}

func pruneUnnamed(r *request) (sdk.Action, error) {
	for _, site := range r.Spec.Sites {
		r.Apply(deploymentOf(site))
	}
	r.Prune()
	return sdk.AwaitChange(), nil
}

func adopt(r *request) (sdk.Action, error) {
	var pods []Pod
	if err := r.List(sdk.Query{Kind: podKind}, &pods); err != nil {
		return sdk.Action{}, err
	}
	for _, pod := range pods {
		meta := pod.Metadata
		ref := podKind.Ref(meta.Namespace, meta.Name)
		ref.UID = meta.UID
		switch matches := r.Spec.Selector.Matches(meta.Labels); {
		case matches && meta.ControllerRef() == nil && !meta.Deleting() && !r.Deleting():
			children.Adopt(r.Run, ref)
		case !matches && meta.ControlledBy(r.UID):
			children.Release(r.Run, ref)
		}
	}
	return sdk.AwaitChange(), nil
}
