// Package kubeevents sends Kubernetes Events as the host: those of plugins on objects, within a share for each
// plugin, and those of others through senders of their own.
package kubeevents

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"github.com/thole-dev/thole/host/kube"
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

// Sender sends Events, one after the other, with the correlation of client-go.
type Sender struct {
	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder
	sink        flushableSink
}

// ForObjects starts a sender for the Events of plugins on objects.
func ForObjects(cluster *rest.Config) (*Sender, error) {
	return New(cluster, objectEventsPerSecond, objectEventsBurst, record.CorrelatorOptions{})
}

// New starts a sender that sends so many Events in a second. It must be stopped.
func New(cluster *rest.Config, perSecond float32, burst int, options record.CorrelatorOptions) (*Sender, error) {
	config := rest.CopyConfig(cluster)
	config.QPS, config.Burst = perSecond, burst
	clients, err := kube.New(config)
	if err != nil {
		return nil, fmt.Errorf("make client for events: %w", err)
	}
	return Start(sink{clients}, options), nil
}

// Start starts a sender to a sink. It must be stopped.
func Start(sink record.EventSink, options record.CorrelatorOptions) *Sender {
	s := &Sender{
		broadcaster: record.NewBroadcaster(record.WithCorrelatorOptions(options)),
		sink:        flushableSink{sink, make(chan struct{})},
	}
	s.broadcaster.StartRecordingToSink(s.sink)
	s.recorder = s.broadcaster.NewRecorder(runtime.NewScheme(), corev1.EventSource{Component: "thole"})
	return s
}

// Event sends an Event on an object. It does not block.
func (s *Sender) Event(object runtime.Object, eventType, reason, message string) {
	s.recorder.Event(object, eventType, reason, message)
}

// FlushTimeout bounds how long Stop waits for Events to be sent.
const FlushTimeout = 2 * time.Second

// Stop sends what is queued, for a short time. It must be called once.
func (s *Sender) Stop() {
	s.Event(&corev1.ObjectReference{}, corev1.EventTypeNormal, "End", "")
	select {
	case <-s.sink.flushed:
	case <-time.After(FlushTimeout):
	}
	s.broadcaster.Shutdown()
}

// sink sends Events to the namespaces that they name.
type sink struct{ clients *kube.Clients }

// Create implements [record.EventSink].
func (s sink) Create(e *corev1.Event) (*corev1.Event, error) {
	return s.clients.Events(e.Namespace).Create(context.Background(), e, metav1.CreateOptions{})
}

// Update implements [record.EventSink].
func (s sink) Update(e *corev1.Event) (*corev1.Event, error) {
	return s.clients.Events(e.Namespace).Update(context.Background(), e, metav1.UpdateOptions{})
}

// Patch implements [record.EventSink].
func (s sink) Patch(e *corev1.Event, patch []byte) (*corev1.Event, error) {
	return s.clients.Events(e.Namespace).Patch(context.Background(), e.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
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

// Recorder sends the Events of one plugin on objects.
type Recorder struct {
	recorder  record.EventRecorder
	allowance *rate.Limiter
	dropped   func()
}

// Recorder returns the recorder of a plugin. dropped is called for each Event
// beyond the plugin's share, which is not sent.
func (s *Sender) Recorder(dropped func()) *Recorder {
	return &Recorder{s.recorder, rate.NewLimiter(pluginEventsPerSecond, pluginEventsBurst), dropped}
}

// Event sends an Event on an object. It does not block.
func (r *Recorder) Event(object runtime.Object, eventType, reason, message string) {
	if !r.allowance.Allow() {
		r.dropped()
		return
	}
	r.recorder.Event(object, eventType, reason, message)
}
