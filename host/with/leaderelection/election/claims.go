package election

import (
	"encoding/json"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// A replica states in each Lease that it leads which plugins it leads by it. Replicas may
// disagree on the Lease of a plugin, while a policy or the number of shards changes: then the
// one that has claimed the plugin first goes on.

// ClaimsAnnotation is the annotation of a Lease with the plugins that its holder leads by it.
const ClaimsAnnotation = "thole.dev/claims"

// claims is the value of the annotation.
type claims struct {
	By      string   `json:"by"` // they are void if another replica holds the Lease
	Plugins []string `json:"plugins"`
}

// claimed returns the plugins that the holder of a Lease claims.
func claimed(lease *coordinationv1.Lease) []string {
	var c claims
	err := json.Unmarshal([]byte(lease.Annotations[ClaimsAnnotation]), &c)
	if err != nil || c.By == "" || c.By != holder(lease) {
		return nil
	}
	return c.Plugins
}

// setClaims sets which plugins are claimed from now on, in their order.
func (l *Lease) setClaims(plugins []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.Equal(plugins, l.claimed) {
		return
	}
	l.claimed, l.claims = plugins, ""
	if len(plugins) > 0 {
		text, _ := json.Marshal(claims{l.e.Identity, plugins}) // cannot fail
		l.claims = string(text)
	}
	l.decided++
}

// addClaims adds the claims to a Lease that is about to be taken.
func (l *Lease) addClaims(lease *coordinationv1.Lease) {
	delete(lease.Annotations, ClaimsAnnotation)
	if l.claims == "" {
		return
	}
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	lease.Annotations[ClaimsAnnotation] = l.claims
}

// write is a request that changes a Lease. It names the version that it changes: after one
// has succeeded, none that was begun before it can.
type write struct {
	sent    time.Time
	base    string // the version that it changes
	decided int    // see Lease.decided
}

// noteReply notes the reply to a write. One that has changed nothing proves nothing. l.mu is
// held.
func (l *Lease) noteReply(reply *coordinationv1.Lease, w write) {
	l.written = newer(reply, l.written)
	if w.decided == l.decided && reply.ResourceVersion != w.base && reply.Annotations[ClaimsAnnotation] == l.claims {
		l.confirmed = w.decided
	}
}

// hasClaimed reports whether the replica leads and claims a plugin, and the watch, which shows
// the Lease as seen, shows whatever was claimed by another replica before that.
func (l *Lease) hasClaimed(plugin string, seen *coordinationv1.Lease) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.check() != nil || l.confirmed != l.decided || seen == nil || l.written == nil {
		return false
	}
	return seen.UID == l.written.UID && newer(seen, l.written) == seen && slices.Contains(claimed(seen), plugin)
}
