package leaderelection

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/internal/explain"
	"github.com/thole-dev/thole/host/with/leaderelection/election"
)

// This file reads and writes what the leader of a plugin records of its modules for the other replicas: an
// annotation of the Lease.

// annotationPrefix precedes the name of a plugin in the annotation of its Lease that has the record.
const annotationPrefix = "plugins.thole.dev/"

// maxRejected bounds how many modules of a plugin are remembered that were rolled back: a
// replica runs none of them although its files are some changes behind.
const maxRejected = 4

// recordOf returns what the leader of a plugin has recorded. A Lease that the plugin has not had before has no
// record yet: what was rolled back is recorded in another Lease, and which module is good may be recorded there
// later.
func (r *replicas) recordOf(lease *election.Lease, plugin string) (of catalog.Record) {
	key := annotationPrefix + plugin
	text, recorded := lease.Annotations()[key]
	if recorded {
		_ = json.Unmarshal([]byte(text), &of) // others may write there what they like
	}
	if of.Good != "" {
		return of
	}
	for _, text := range r.election.Annotation(key) {
		var other catalog.Record
		_ = json.Unmarshal([]byte(text), &other)
		if of.Good = cmp.Or(of.Good, other.Good); recorded {
			continue
		}
		for _, digest := range other.Rejected {
			of.Rejected = withRejected(of.Rejected, digest)
		}
	}
	return of
}

// annotationOf returns the annotation.
func annotationOf(r catalog.Record) *string {
	text, _ := json.Marshal(r) // cannot fail
	return new(string(text))
}

// Recorded implements [catalog.Replicas].
func (r *replicas) Recorded(m *catalog.Module) (catalog.Record, error) {
	p := r.ofModule(m)
	if err := r.election.Err(); err != nil {
		return catalog.Record{}, err
	}
	of := r.recordOf(p.Lease, m.Name)
	if p.Lease.Leads() {
		of = r.ofLeader(m, of)
	}
	return of, nil
}

// ofModule returns who leads a plugin: without a policy by the Lease that it had before.
func (r *replicas) ofModule(m *catalog.Module) *election.Plugin {
	if before := r.election.Plugin(m.Name); m.PolicyUnknown && before != nil {
		return before
	}
	return r.election.Of(m.Name, hasOwnLease(m.Policy))
}

// ofLeader returns what of a record holds for the replica that leads. An administrator
// who pins a module, or changes the file to another one and back, wants it to run.
func (r *replicas) ofLeader(m *catalog.Module, before catalog.Record) (now catalog.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m.Err == nil {
		file := r.files[m.Name]
		r.files[m.Name] = m.Digest
		if file != m.Digest && slices.Contains(before.Rejected, file) {
			r.letRetry(m.Name, file)
		}
		if m.Policy.Digest != "" && m.Policy.Pins(m.Digest) {
			r.letRetry(m.Name, m.Digest)
		}
	}
	now.Good = before.Good
	retried := r.retried[m.Name]
	if slices.Contains(retried, m.Digest) {
		now.Running = m.Digest
	}
	now.Rejected = slices.DeleteFunc(before.Rejected, func(digest string) bool { return slices.Contains(retried, digest) })
	return now
}

// letRetry lets a module run although it was rolled back. r.mu is held.
func (r *replicas) letRetry(plugin, digest string) {
	if !slices.Contains(r.retried[plugin], digest) {
		r.retried[plugin] = append(r.retried[plugin], digest)
	}
}

// Reject implements [catalog.Replicas].
func (r *replicas) Reject(m *catalog.Module, digest string) {
	r.recording.Lock()
	defer r.recording.Unlock()
	p := r.ofModule(m)
	r.mu.Lock()
	r.retried[m.Name] = slices.DeleteFunc(r.retried[m.Name], func(d string) bool { return d == digest })
	r.mu.Unlock()
	of := r.recordOf(p.Lease, m.Name)
	if slices.Contains(of.Rejected, digest) {
		return
	}
	of.Rejected = withRejected(of.Rejected, digest)
	err := p.Lease.Annotate(context.Background(), map[string]*string{annotationPrefix + m.Name: annotationOf(of)})
	if err != nil {
		r.logger.Error("other replicas do not know that a module was rolled back, and may run it if they take over", "plugin", m.Name, "digest", digest, "error", err)
	}
}

// withRejected adds a module to those that were rolled back.
func withRejected(rejected []string, digest string) []string {
	if slices.Contains(rejected, digest) {
		return rejected
	}
	rejected = append(slices.Clone(rejected), digest)
	return rejected[max(0, len(rejected)-maxRejected):]
}

// RetryRefused implements [runner.Leaders].
func (r *replicas) RetryRefused() {
	for _, lease := range r.election.Leases() {
		if !lease.Leads() {
			continue
		}
		for _, plugin := range r.election.PluginsOf(lease) {
			r.mu.Lock()
			r.retried[plugin.Name] = r.recordOf(lease, plugin.Name).Rejected
			r.mu.Unlock()
		}
	}
}

// recordEvery is how often the annotations are brought up to date.
const recordEvery = time.Second

// recordChanges calls record until ctx is done.
func (r *replicas) recordChanges(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(recordEvery):
			r.record(ctx)
		}
	}
}

// record writes what has changed of the plugins that this replica leads.
func (r *replicas) record(ctx context.Context) {
	if !r.host.Directory.Updated() {
		return
	}
	r.election.Keep(func(plugin string) bool {
		_, known := r.host.Directory.Status(plugin)
		return known
	})
	r.kept.prune(func(plugin string) bool {
		_, known := r.host.Directory.Status(plugin)
		return known
	})
	statuses := map[string]catalog.Status{}
	for _, s := range r.host.Directory.Statuses() {
		statuses[s.Name] = s
	}
	for _, lease := range r.election.Leases() {
		if !lease.Leads() {
			continue
		}
		r.logUnrecorded(ctx, lease, r.recordBy(ctx, lease, statuses))
	}
}

// logUnrecorded logs an error that is another one than the last.
func (r *replicas) logUnrecorded(ctx context.Context, lease *election.Lease, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if err != nil && text != r.unrecorded[lease] && ctx.Err() == nil {
		r.logger.Warn("cannot record for other replicas what runs", "lease", lease.Name, "error", explain.Forbidden(err))
	}
	r.unrecorded[lease] = text
}

// recordBy writes what has changed of the plugins of one Lease.
func (r *replicas) recordBy(ctx context.Context, lease *election.Lease, statuses map[string]catalog.Status) error {
	r.recording.Lock()
	defer r.recording.Unlock()
	changes := map[string]*string{}
	for key := range lease.Annotations() {
		if plugin, ours := strings.CutPrefix(key, annotationPrefix); ours && r.hasGone(plugin, lease) {
			changes[key] = nil
		}
	}
	for _, plugin := range r.election.PluginsOf(lease) {
		s, known := statuses[plugin.Name]
		if !known {
			continue
		}
		before := r.recordOf(lease, plugin.Name)
		now := r.after(before, s)
		if s.Good != "" && r.kept.share(ctx, plugin.Name, s.Good, before.Good) { // before it is recorded
			now.Good = s.Good
		}
		if now.Running != before.Running || now.Good != before.Good || !slices.Equal(now.Rejected, before.Rejected) {
			changes[annotationPrefix+plugin.Name] = annotationOf(now)
		}
	}
	if len(changes) == 0 {
		return nil
	}
	return lease.Annotate(ctx, changes)
}

// hasGone reports whether a plugin has another Lease by now, or is not in the directory of this
// replica for so long that it has not just been added to that of another one.
func (r *replicas) hasGone(plugin string, lease *election.Lease) bool {
	p := r.election.Plugin(plugin)
	r.mu.Lock()
	defer r.mu.Unlock()
	if p != nil {
		delete(r.missing, plugin)
		return p.Lease != lease
	}
	since, missed := r.missing[plugin]
	if !missed {
		since = time.Now()
		r.missing[plugin] = since
	}
	return time.Since(since) > goneAfter
}

// goneAfter is longer than the directories of replicas differ if they are of one ConfigMap.
const goneAfter = 10 * time.Minute

// after returns what is to be recorded of a plugin. That a module was rolled back stays until
// it runs since it was to be tried again.
func (r *replicas) after(before catalog.Record, s catalog.Status) (now catalog.Record) {
	r.mu.Lock()
	retried := slices.Contains(r.retried[s.Name], s.Digest)
	r.mu.Unlock()
	now.Running, now.Good = s.Digest, before.Good
	now.Rejected = slices.DeleteFunc(slices.Clone(before.Rejected), func(digest string) bool { return retried && digest == s.Digest })
	if s.FailedStep == catalog.StepProbation {
		now.Rejected = withRejected(now.Rejected, s.Rejected)
	}
	return now
}
