package main

import (
	"cmp"
	"math/bits"
	"slices"
	"strconv"
	"time"

	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/children"
)

// This file chooses the pods to delete.

// deletionCost is the annotation that makes pods of a ReplicaSet be deleted earlier or later:
// https://kubernetes.io/docs/reference/labels-annotations-taints/#pod-deletion-cost
const deletionCost = "controller.kubernetes.io/pod-deletion-cost"

// rankForDeletion returns the pods in the order in which they are deleted: those that cost least first, by
// the rules of https://kubernetes.io/docs/concepts/workloads/controllers/replicaset/#scaling-a-replicaset
func rankForDeletion(r *request, active []*Pod) ([]*Pod, error) {
	onNode, err := countByNode(r)
	if err != nil {
		return nil, err
	}
	ofSidecars, err := sidecarRestarts(r)
	if err != nil {
		return nil, err
	}
	ranked := slices.Clone(active)
	slices.SortStableFunc(ranked, func(a, b *Pod) int {
		aSince, aReady := a.readySince()
		bSince, bReady := b.readySince()
		return cmp.Or(
			first(a.Spec.NodeName == "", b.Spec.NodeName == ""),
			cmp.Compare(phaseRank[a.Status.Phase], phaseRank[b.Status.Phase]),
			first(!aReady, !bReady),
			cmp.Compare(a.cost(), b.cost()),
			cmp.Compare(onNode[b.Spec.NodeName], onNode[a.Spec.NodeName]),
			youngerFirst(r.Now, aSince, bSince, a, b),
			cmp.Compare(b.restarts(), a.restarts()),
			cmp.Compare(ofSidecars[b.Metadata.UID], ofSidecars[a.Metadata.UID]),
			youngerFirst(r.Now, a.Metadata.CreationTimestamp.Time(), b.Metadata.CreationTimestamp.Time(), a, b),
			cmp.Compare(a.Metadata.UID, b.Metadata.UID),
		)
	})
	return ranked, nil
}

// first sorts what is true before what is not.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// phaseRank has the phases in which a pod is deleted later than in "Pending".
var phaseRank = map[string]int{"Unknown": 1, "Running": 2}

// cost returns the deletion cost of a pod, 0 if it has none that is valid. As in Kubernetes, one with a plus
// sign or leading zeros is not.
func (p *Pod) cost() int64 {
	text := p.Metadata.Annotations[deletionCost]
	cost, err := strconv.ParseInt(text, 10, 32)
	if err != nil || text[0] == '+' || text[0] == '0' {
		return 0
	}
	return cost
}

// youngerFirst compares two times of pods by the magnitude of their ages: of two that differ and are about the
// same, chance decides and not the second in which a pod was made, nor what else it has.
func youngerFirst(now, aTime, bTime time.Time, a, b *Pod) int {
	if aTime.Equal(bTime) {
		return 0
	}
	return cmp.Or(cmp.Compare(magnitude(now, aTime), magnitude(now, bTime)), cmp.Compare(a.Metadata.UID, b.Metadata.UID))
}

// magnitude returns the binary logarithm of an age in nanoseconds, plus one; 0 for a time that is not past, and
// less for none.
func magnitude(now, t time.Time) int {
	if t.IsZero() {
		return -1
	}
	return bits.Len64(uint64(max(0, now.Sub(t))))
}

// countByNode counts the active pods on each node that match a ReplicaSet with the same controller, such as
// the one before in a rollout, whoever owns them: where there are several, one can go. This ReplicaSet counts,
// too. Without a controller there is no count, as in Kubernetes.
func countByNode(r *request) (map[string]int, error) {
	controller := controllerOf(r.OwnerReferences)
	if controller == "" {
		return nil, nil
	}
	var related []ReplicaSet
	if err := r.List(sdk.Query{Kind: replicaSetKind, Namespace: r.Namespace}, &related, sdk.Fields("/metadata/ownerReferences", "/spec/selector")); err != nil {
		return nil, err
	}
	related = slices.DeleteFunc(related, func(rs ReplicaSet) bool { return controllerOf(rs.Metadata.OwnerReferences) != controller })
	var pods []Pod
	err := r.List(sdk.Query{Kind: podKind, Namespace: r.Namespace}, &pods,
		sdk.Fields("/metadata/labels", "/metadata/deletionTimestamp", "/spec/nodeName", "/status/phase"))
	count := map[string]int{}
	for i := range pods {
		pod := &pods[i]
		matches := func(rs ReplicaSet) bool { return rs.Spec.Selector.Matches(pod.Metadata.Labels) }
		if !pod.ended() && !pod.Metadata.Deleting() && slices.ContainsFunc(related, matches) {
			count[pod.Spec.NodeName]++
		}
	}
	return count, err
}

// sidecarRestarts returns how often the sidecars of each pod were restarted, by the pod's UID. Runs that delete
// nothing do not read it.
func sidecarRestarts(r *request) (map[string]int32, error) {
	var pods []Pod
	err := r.List(sdk.Query{Kind: podKind, Namespace: r.Namespace}, &pods, children.OwnedBySelf(),
		sdk.Fields("/spec/initContainers", "/status/initContainerStatuses"))
	restarts := map[string]int32{}
	for i := range pods {
		restarts[pods[i].Metadata.UID] = pods[i].sidecarRestarts()
	}
	return restarts, err
}

// ReplicaSet is the part of another ReplicaSet that the controller reads.
type ReplicaSet struct {
	Metadata sdk.ObjectMeta `json:"metadata"`
	Spec     ReplicaSetSpec `json:"spec"`
}

// ReplicaSetSpec is the part of the spec of another ReplicaSet that the controller reads.
type ReplicaSetSpec struct {
	Selector *sdk.LabelSelector `json:"selector"`
}

// controllerOf returns the uid of the controller among owners, "" if there is none.
func controllerOf(owners []sdk.OwnerReference) string {
	for _, owner := range owners {
		if owner.Controller {
			return owner.UID
		}
	}
	return ""
}
