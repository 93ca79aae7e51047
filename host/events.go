package host

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/effect"
)

// events are the Kubernetes Events that the host sends: about the objects of
// its plugins, and about plugins on its own pod.
type events struct {
	*broadcast
	pod *podEvents
}

// broadcast sends Events as the host, with the correlation and rate limits of
// client-go.
type broadcast struct {
	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder
	sink        markedSink
}

// The events of the whole host about the objects of its plugins, beyond
// client-go's own limit per object: without these numbers its default of 5 per
// second would lose those of any burst.
const (
	eventsPerSecond = 50
	eventsAtOnce    = 500
)

// The share of one plugin, so that what it tells leaves the others a place.
const (
	pluginEventsPerSecond = eventsPerSecond / 2
	pluginEventsAtOnce    = eventsAtOnce
)

// share is the recorder of one plugin.
type share struct {
	effect.Recorder
	allowance dispatch.Allowance
	dropped   func() // told of each event beyond the allowance
}

// Event implements [effect.Recorder].
func (s share) Event(object runtime.Object, eventType, reason, message string) {
	if !s.allowance.Allow() {
		s.dropped()
		return
	}
	s.Recorder.Event(object, eventType, reason, message)
}

// flushTime is how long the end of the host waits for events to be sent.
const flushTime = 2 * time.Second

// newEvents starts them; pod is that of the host, nil outside of one.
func newEvents(cluster *rest.Config, pod *corev1.ObjectReference) (*events, error) {
	sink, err := newSink(cluster, eventsPerSecond, eventsAtOnce)
	if err != nil {
		return nil, err
	}
	onPod, err := newPodEvents(cluster, pod)
	if err != nil {
		return nil, err
	}
	return &events{startBroadcast(sink, record.CorrelatorOptions{}), onPod}, nil
}

// stop sends what is waiting, for a short time. It is called once.
func (e *events) stop() {
	e.pod.stop()
	e.broadcast.stop()
}

func newSink(cluster *rest.Config, perSecond float32, atOnce int) (record.EventSink, error) {
	config := rest.CopyConfig(cluster)
	config.QPS, config.Burst = perSecond, atOnce
	client, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client for events: %w", err)
	}
	return &corev1client.EventSinkImpl{Interface: client.Events("")}, nil
}

func startBroadcast(sink record.EventSink, options record.CorrelatorOptions) *broadcast {
	b := &broadcast{
		broadcaster: record.NewBroadcaster(record.WithCorrelatorOptions(options)),
		sink:        markedSink{sink, make(chan struct{})},
	}
	b.broadcaster.StartRecordingToSink(b.sink)
	b.recorder = b.broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "thole"})
	return b
}

// stop sends what is waiting, for flushTime at most. It is called once.
func (b *broadcast) stop() {
	b.recorder.Event(&corev1.ObjectReference{}, corev1.EventTypeNormal, "End", "")
	select {
	case <-b.sink.marked:
	case <-time.After(flushTime):
	}
	b.broadcaster.Shutdown()
}

// markedSink sends events one after the other. One about nothing is the mark:
// it is not sent, but closes marked, for then nothing is waiting any more.
type markedSink struct {
	record.EventSink
	marked chan struct{}
}

func (s markedSink) Create(e *corev1.Event) (*corev1.Event, error) {
	if e.InvolvedObject.Name == "" {
		close(s.marked)
		return e, nil
	}
	return s.EventSink.Create(e)
}
