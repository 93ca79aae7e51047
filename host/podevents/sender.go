// Package podevents sends the Kubernetes Events of the host: on objects, for its
// plugins, within a share for each plugin; and about plugins, on the pod that the
// host runs in, where `kubectl describe pod` shows them.
package podevents

import (
	"fmt"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"github.com/thole-dev/thole/host/events"
)

// Rates of Events on objects. Without them client-go's client would send 5 per
// second and lose the rest of every burst. Half of the rate is the most that one
// plugin gets: see RATIONALE.md.
const (
	objectEventsPerSecond = 50
	objectEventsBurst     = 500
	pluginEventsPerSecond = objectEventsPerSecond / 2
	pluginEventsBurst     = objectEventsBurst
)

// Sender sends the Events of one host. It is an [events.Observer].
type Sender struct {
	objects *broadcast
	pod     *podObserver // nil outside of a pod
}

var _ events.Observer = (*Sender)(nil)

// New starts a sender. pod is the pod of the host with its uid, without which
// kubectl does not show Events; nil if the host does not run in a pod.
func New(cluster *rest.Config, pod *corev1.ObjectReference) (*Sender, error) {
	sink, err := newSink(cluster, objectEventsPerSecond, objectEventsBurst)
	if err != nil {
		return nil, err
	}
	s := &Sender{objects: startBroadcast(sink, record.CorrelatorOptions{})}
	if pod == nil {
		return s, nil
	}
	// A queue of their own: behind 500 Events on objects they would be late.
	if sink, err = newSink(cluster, podEventsPerSecond, podEventsBurst); err != nil {
		s.Stop()
		return nil, err
	}
	s.pod = startPodObserver(sink, pod)
	return s, nil
}

// Observe implements [events.Observer]: it reports what happens to plugins on the
// pod.
func (s *Sender) Observe(e events.Event) {
	if s.pod != nil {
		s.pod.Observe(e)
	}
}

// Stop sends what is queued, for a short time. It must be called once.
func (s *Sender) Stop() {
	if s.pod != nil {
		s.pod.stop()
	}
	s.objects.stop()
}

// Recorder sends the Events of one plugin on objects.
type Recorder struct {
	recorder  record.EventRecorder
	allowance *rate.Limiter
	dropped   func()
}

// Recorder returns the recorder of a plugin. dropped is called for each Event
// beyond the plugin's share, which is not sent.
func (s *Sender) Recorder(dropped func()) *Recorder {
	return &Recorder{s.objects.recorder, rate.NewLimiter(pluginEventsPerSecond, pluginEventsBurst), dropped}
}

// Event sends an Event on an object. It does not block.
func (r *Recorder) Event(object runtime.Object, eventType, reason, message string) {
	if !r.allowance.Allow() {
		r.dropped()
		return
	}
	r.recorder.Event(object, eventType, reason, message)
}

// broadcast sends Events as the host, one after the other, with the correlation
// of client-go.
type broadcast struct {
	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder
	sink        flushableSink
}

func newSink(cluster *rest.Config, perSecond float32, burst int) (record.EventSink, error) {
	config := rest.CopyConfig(cluster)
	config.QPS, config.Burst = perSecond, burst
	client, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client for events: %w", err)
	}
	return &corev1client.EventSinkImpl{Interface: client.Events("")}, nil
}

func startBroadcast(sink record.EventSink, options record.CorrelatorOptions) *broadcast {
	b := &broadcast{
		broadcaster: record.NewBroadcaster(record.WithCorrelatorOptions(options)),
		sink:        flushableSink{sink, make(chan struct{})},
	}
	b.broadcaster.StartRecordingToSink(b.sink)
	b.recorder = b.broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "thole"})
	return b
}

// flushTimeout bounds how long stop waits for Events to be sent.
const flushTimeout = 2 * time.Second

func (b *broadcast) stop() {
	b.recorder.Event(&corev1.ObjectReference{}, corev1.EventTypeNormal, "End", "")
	select {
	case <-b.sink.flushed:
	case <-time.After(flushTimeout):
	}
	b.broadcaster.Shutdown()
}

// flushableSink sends Events in their order. An Event about an object without a
// name is not sent: it marks the end of the queue, and closes flushed.
type flushableSink struct {
	record.EventSink
	flushed chan struct{}
}

func (s flushableSink) Create(e *corev1.Event) (*corev1.Event, error) {
	if e.InvolvedObject.Name == "" {
		close(s.flushed)
		return e, nil
	}
	return s.EventSink.Create(e)
}
