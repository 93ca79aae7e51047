package kubeevents

import (
	"strconv"
	"testing"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
)

func TestEventsBeyondTheShareOfAPluginAreCountedAndDropped(t *testing.T) {
	sent := record.NewFakeRecorder(10)
	dropped := 0
	r := &Recorder{sent, rate.NewLimiter(0, 3), func() { dropped++ }}
	for i := range 5 {
		r.Event(&corev1.Pod{}, corev1.EventTypeNormal, "Copied", strconv.Itoa(i))
	}
	if len(sent.Events) != 3 || dropped != 2 {
		t.Errorf("%d of 5 are sent and %d dropped, want 3 and 2", len(sent.Events), dropped)
	}
	if first := <-sent.Events; first != "Normal Copied 0" {
		t.Errorf("the first one is %q", first)
	}
}
