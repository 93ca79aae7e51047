package main

import (
	"cmp"

	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// podOf returns the pod that the process runs in, which the downward API puts into
// its environment: POD_NAME, POD_NAMESPACE and POD_UID. It returns nil without
// them. If only some of them are set, a warning is logged.
func podOf(getenv func(string) string, logger hclog.Logger) *corev1.ObjectReference {
	name, namespace, uid := getenv("POD_NAME"), getenv("POD_NAMESPACE"), getenv("POD_UID")
	if name != "" && namespace != "" && uid != "" {
		return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: name, UID: types.UID(uid)}
	}
	if cmp.Or(name, namespace, uid) != "" {
		logger.Warn("no Events on the host's pod: set POD_NAME, POD_NAMESPACE and POD_UID by the downward API",
			"POD_NAME", name, "POD_NAMESPACE", namespace, "POD_UID", uid)
	}
	return nil
}
