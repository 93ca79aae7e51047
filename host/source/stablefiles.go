package source

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/thole-dev/thole/host/sanitize"
)

const (
	// coarsestTimestamp is the largest step of a file system's timestamps (FAT
	// has 2 s): changes that are further apart have different ones.
	coarsestTimestamp = 2 * time.Second
	// warnAfter is how long files may keep changing before this is logged.
	warnAfter = 10 * time.Second
)

// fileStats are the stats of a plugin's two files in one scan.
type fileStats struct{ module, policy fileStat }

func (s fileStats) equal(other fileStats) bool {
	return s.module.equal(other.module) && s.policy.equal(other.policy)
}

// pluginFiles follows the module and the policy of one plugin. They are taken
// over together, so that a module never runs under the policy of another
// version.
type pluginFiles struct {
	name          string
	module        string    // path
	policy        string    // path
	latest        fileStats // in the last scan
	since         time.Time // when latest was seen first
	unstableSince time.Time // zero if the files are stable
	warned        bool      // that the files are not stable

	plugin *Plugin   // as it was read last; nil if it never was
	read   fileStats // of what was read
	// racyTimestamp is set if the files were read so soon after a change that
	// another one could have got the same timestamps. They are read once more
	// when that can be ruled out.
	racyTimestamp bool
}

func (d *Directory) pluginFiles(name string) *pluginFiles {
	p := d.plugins[name]
	if p == nil {
		path := filepath.Join(d.Path, name)
		p = &pluginFiles{name: name, module: path + moduleExtension, policy: path + policyExtension}
		d.plugins[name] = p
	}
	return p
}

// update reads the files if they are stable and have not been read yet. It
// returns when to scan again for files that are not stable, else zero.
func (p *pluginFiles) update(d *Directory, seen fileStats, now time.Time, buffer *bytes.Buffer) (due time.Time) {
	if p.since.IsZero() || !seen.equal(p.latest) {
		p.latest, p.since = seen, now
	}
	stableFor := now.Sub(p.since)
	if !p.isRead(seen, stableFor) {
		if stableFor < d.StableFor || !p.load(d, seen, buffer) {
			return p.wait(d, now)
		}
		p.racyTimestamp = stableFor < coarsestTimestamp
	}
	p.unstableSince, p.warned = time.Time{}, false
	return time.Time{}
}

// isRead reports whether p.plugin is what the files hold. A file that could
// not be read is tried at every scan: what is wrong may be outside of it.
func (p *pluginFiles) isRead(seen fileStats, stableFor time.Duration) bool {
	return p.plugin != nil && p.plugin.Err == nil && seen.equal(p.read) &&
		(!p.racyTimestamp || stableFor < coarsestTimestamp)
}

// load reads the files and reports whether they were still the ones that were
// seen when they had been read. A missing module leaves no plugin.
func (p *pluginFiles) load(d *Directory, seen fileStats, buffer *bytes.Buffer) bool {
	if seen.module.absent() {
		p.plugin = nil
		return true
	}
	plugin := &Plugin{Name: sanitize.Line(p.name), Path: p.module}
	wasm, err := d.moduleFile().read(d.system.open, p.module, seen.module, buffer)
	if err != nil {
		plugin.Err = fmt.Errorf("read plugin %s: %w", p.module, err)
	} else {
		plugin.Digest, plugin.Size = digestOf(wasm), int64(len(wasm))
		plugin.Read = d.reader(p.module, plugin.Digest)
	}
	policy, policyErr := p.readPolicy(d, seen.policy, buffer)
	plugin.Policy, plugin.PolicyUnknown, plugin.Err = policy, policyErr != nil, cmp.Or(plugin.Err, policyErr)
	if errors.Is(err, errChanged) || errors.Is(policyErr, errChanged) {
		p.since = d.system.now() // of a file that looks as before: its stat may come from a cache
		return false
	}
	p.plugin, p.read = plugin, seen
	return true
}

// readPolicy returns nil if there is no policy. A policy that cannot be read
// is an error of the plugin, which would otherwise have more rights than the
// administrator wants. So is an empty one: a shell redirection empties the
// file long before its command writes to it.
func (p *pluginFiles) readPolicy(d *Directory, seen fileStat, buffer *bytes.Buffer) ([]byte, error) {
	if seen.absent() {
		return nil, nil
	}
	text, err := policyFile.read(d.system.open, p.policy, seen, buffer)
	if err == nil {
		err = CheckPolicy(text)
	}
	if err != nil {
		return nil, fmt.Errorf("read policy %s: %w", p.policy, err)
	}
	return bytes.Clone(text), nil
}

// CheckPolicy returns an error for a text that is no policy, whatever policies may have: one that is empty.
func CheckPolicy(text []byte) error {
	if len(bytes.TrimSpace(text)) == 0 {
		return problem("is empty: write the policy to it ({} allows what no policy allows), or remove it")
	}
	return nil
}

// gone reports whether the module has been missing for long enough.
func (p *pluginFiles) gone() bool { return p.latest.module.absent() && p.unstableSince.IsZero() }

// wait returns when the files will have been stable for long enough, unless
// they change again.
func (p *pluginFiles) wait(d *Directory, now time.Time) (due time.Time) {
	if p.unstableSince.IsZero() {
		p.unstableSince = now
	}
	if !p.warned && now.Sub(p.unstableSince) >= warnAfter {
		p.warned = true
		d.Logger.Warn("the files of a plugin keep changing and are not read: write to a file of another name and rename it",
			"module", p.module, "policy", p.policy, "since", p.unstableSince.UTC().Format(time.RFC3339))
	}
	return p.since.Add(d.StableFor)
}
