package host

import (
	"strconv"
	"testing"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
)

// TestAPluginHasAShareOfTheEvents: what is beyond it is counted, and not sent in
// the place of what others have to tell.
func TestAPluginHasAShareOfTheEvents(t *testing.T) {
	sent := record.NewFakeRecorder(10)
	dropped := 0
	s := share{sent, rate.NewLimiter(0, 3), func() { dropped++ }}
	for i := range 5 {
		s.Event(&corev1.Pod{}, corev1.EventTypeNormal, "Copied", strconv.Itoa(i))
	}
	if len(sent.Events) != 3 || dropped != 2 {
		t.Errorf("%d are sent and %d dropped of 5, 3 are allowed", len(sent.Events), dropped)
	}
	if first := <-sent.Events; first != "Normal Copied 0" {
		t.Errorf("the first one is %q", first)
	}
}
