package runner

import (
	"net/http"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/webhooks"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/sandbox"
	"github.com/thole-dev/thole/host/webhook"
)

// converting returns a revision of a plugin that converts widgets.
func converting(policy config.Policy) *Revision {
	policy.Limits.Concurrency, policy.Sections = 1, map[string]config.PolicySection{webhooks.Name: webhook.NewSettings()}
	return &Revision{
		Revision: events.Revision{Plugin: "p", Number: 1, Digest: "d"}, Policy: policy, Guest: &sandbox.Guest{},
		Manifest: &abi.Manifest{Name: "p", Controllers: []abi.Controller{{Name: "c", For: widgets.All(), Sections: []abi.Section{webhooks.Webhooks{Convert: true}.Section()}}}},
	}
}

func converts(r *Runner) bool { return r.Reviewer(webhooks.ExportConvert, "p", "c") != nil }

// The API server has the objects of a first list converted that are stored in another version.
func TestPluginConvertsBeforeItsFirstListIsAnswered(t *testing.T) {
	var r *Runner
	asked := make(chan struct{}, 1)
	url := startServer(t, func(_ http.ResponseWriter, request *http.Request) bool {
		if request.URL.Path != "/apis/test.dev/v1/widgets" || request.URL.Query().Has("watch") {
			return false
		}
		for !converts(r) {
			select {
			case <-request.Context().Done():
				return true
			case <-time.After(time.Millisecond):
			}
		}
		if r.Reviewer(webhooks.ExportValidate, "p", "c") != nil {
			return false
		}
		if all := r.Reviewed(); len(all) != 1 || !all[0].Starting || !all[0].Leads || len(all[0].Reviewed) != 1 || all[0].Reviewed[0].Resource.GVR.Resource != "widgets" {
			t.Errorf("the API server is told %+v", all)
		}
		select {
		case asked <- struct{}{}:
		default:
		}
		return false
	})
	r = newRunner(t, url, "")
	rev := converting(config.Policy{})
	if err := r.Start(t.Context(), rev, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	select {
	case <-asked:
	default:
		t.Error("no list was answered before the plugin ran")
	}
	if c := r.Reviewer(webhooks.ExportConvert, "p", "c"); c != r.Reviewer(webhooks.ExportValidate, "p", "c") {
		t.Error("another controller than the running one converts")
	}
	if all := r.Reviewed(); len(all) != 1 || all[0].Starting {
		t.Errorf("of the running plugin the API server is told %+v", all)
	}
	r.Stop("p", false)
	if !converts(r) {
		t.Error("a revision that is kept to be started again converts nothing meanwhile")
	}
	r.Discard(converting(config.Policy{})) // of another guest
	if !converts(r) {
		t.Error("another revision was discarded, and this one converts nothing")
	}
	r.Discard(rev)
	if converts(r) {
		t.Error("a guest that is closed converts")
	}
}
