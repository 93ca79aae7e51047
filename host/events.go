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

// The events of the whole host, beyond client-go's own limit per object:
// without these numbers its default of 5 per second would lose those of any
// burst.
const (
	eventsPerSecond = 50
	eventsAtOnce    = 500
)

func newEvents(cluster *rest.Config) (*events, error) {
	config := rest.CopyConfig(cluster)
	config.QPS, config.Burst = eventsPerSecond, eventsAtOnce
	client, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client for events: %w", err)
	}
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: client.Events("")})
	recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "thole"})
	return &events{broadcaster, recorder}, nil
}

func (e *events) stop() { e.broadcaster.Shutdown() }
