package host

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/thole-dev/thole/host/cache"
)

// collectFollowing collects how kinds are followed: by a watch, or by lists at an interval.
func collectFollowing(ch chan<- prometheus.Metric, kinds []cache.Following) {
	for _, f := range kinds {
		kind, by := f.Kind.String(), "watch"
		if f.Polled {
			by = "poll"
		}
		gauge(ch, "thole_cache_following", "1 while the kind is followed, by a watch or by a poll; 0 before the first list, and while its requests fail.",
			oneIf(f.Working), prometheus.Labels{"kind": kind, "by": by})
		gauge(ch, "thole_cache_handlers", "Handlers of controllers that the changes of the kind go to: for each entry of for, owns and watches that has the kind.",
			f.Handlers, prometheus.Labels{"kind": kind})
		if !f.Polled {
			continue
		}
		gauge(ch, "thole_poll_interval_seconds", "Time between two lists of a kind that cannot be watched, without jitter.",
			f.Interval.Seconds(), prometheus.Labels{"kind": kind})
		collectPolls(ch, kind, "success", f.Succeeded)
		collectPolls(ch, kind, "error", f.Failed)
	}
}

func collectPolls(ch chan<- prometheus.Metric, kind, result string, n uint64) {
	counter(ch, "thole_polls_total", "Lists of kinds that cannot be watched, by result.", n, prometheus.Labels{"kind": kind, "result": result})
}
