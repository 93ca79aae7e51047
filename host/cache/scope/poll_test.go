package scope

import (
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
)

func TestTheShortestPollIntervalOfTheEntriesOfAKindCounts(t *testing.T) {
	every := func(kind abi.Kind, ms int64) abi.Followed { return abi.Followed{Kind: kind, PollInterval: ms} }
	node := abi.Kind{APIVersion: "v1", Kind: "Node"}
	m := &abi.Manifest{Name: "p", Controllers: []abi.Controller{
		{Name: "a", For: every(widget, 60_000), Reads: []abi.Followed{every(pod, 40_000)}},
		{Name: "b", For: every(pod, 50_000), Owns: []abi.Followed{every(node, 3_600_000)}, Watches: []abi.Watch{
			{Followed: every(widget, 45_000), By: abi.WatchByLabel, Key: "w"}, {Followed: every(pod, 0), By: abi.WatchByLabel, Key: "p"},
		}},
	}}
	p, err := OfManifest(m, nil)
	if err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[abi.Kind]time.Duration{widget: 45 * time.Second, pod: 30 * time.Second, node: time.Hour} {
		if got := p.PollIntervals[kind]; got != want {
			t.Errorf("%s is listed every %s, want %s", kind, got, want)
		}
	}
}
