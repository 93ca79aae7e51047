package host

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
)

// events sends Kubernetes Events as the host, with the correlation and rate
// limits of client-go.
type events struct {
	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder
}

func newEvents(cluster *rest.Config) (*events, error) {
	client, err := corev1client.NewForConfig(cluster)
	if err != nil {
		return nil, fmt.Errorf("make client for events: %w", err)
	}
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: client.Events("")})
	recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "thole"})
	return &events{broadcaster, recorder}, nil
}

func (e *events) stop() { e.broadcaster.Shutdown() }
