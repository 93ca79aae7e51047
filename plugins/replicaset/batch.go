package main

import (
	"strings"

	"github.com/thole-dev/thole/sdk"
)

// This file bounds how many pods one run creates.

// mostBytes is how many bytes of pods one run creates, unless a single pod has more. A result has at most
// 1.5 MiB, also of other things.
const mostBytes = 1 << 20

// takeBatch returns how many pods this run may create: 1, and twice as many as the run before if there are
// still pods missing and that one has created all that it tried. So a quota that is exhausted refuses few of
// many pods. The memo has the number for the next run alone.
func takeBatch(r *request) int {
	var batch int
	ok, err := r.Memo(&batch)
	r.SetMemo(nil)
	if !ok || err != nil || creationFailed(r.Previous) {
		return 1
	}
	return max(batch, 1)
}

// creationFailed reports whether the last run could not create a pod.
func creationFailed(previous *sdk.Previous) bool {
	if previous == nil {
		return false
	}
	for _, f := range previous.Failures {
		if strings.HasPrefix(f.Group, toCreate) {
			return true
		}
	}
	return false
}

// podSize returns about how many bytes of a result a pod takes with its Event.
func podSize(r *request) (int, error) {
	const besides = 512 // the Event, and the groups of both
	pod, err := newPod(r, "").AppendJSON(nil)
	return len(pod) + besides, err
}

// maxGenerateName is how much of a generateName the API server takes for a name, as the value of a label
// has 5 characters more.
const maxGenerateName = 58

// podName returns a name for a new pod, such as the API server makes of the generateName. It is a DNS
// subdomain: unlike a label, it may have the dots of the ReplicaSet's name.
func podName(r *request) string {
	prefix := r.Name + "-"
	return prefix[:min(len(prefix), maxGenerateName)] + r.UniqueName("")
}
