package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// replace installs a new version by a rename.
func (d *soakDirectory) replace(p *soakPlugin, variant []byte) {
	wasm, version := d.next(p, variant)
	replaceFile(d.t, d.file(p), wasm)
	p.present, p.loadable, p.version = true, true, version
	d.record(p, "replaced by %s, %d bytes", version, len(wasm))
}

// corrupt installs a file that cannot run.
func (d *soakDirectory) corrupt(p *soakPlugin) {
	wasm, _ := d.next(p, d.modules.plain)
	bad, description := corrupted(d.random, wasm)
	replaceFile(d.t, d.file(p), bad)
	p.present, p.loadable = true, false
	d.record(p, "replaced by a bad file: %s, %d bytes", description, len(bad))
}

// overwriteInPlace writes a new version over the old one in several parts, as cp
// does.
func (d *soakDirectory) overwriteInPlace(p *soakPlugin) {
	wasm, version := d.next(p, d.variant())
	file, err := os.Create(d.file(p))
	must(d.t, err)
	p.present, p.loadable = true, false
	var pauses []time.Duration
	for rest := wasm; len(rest) > 0; {
		n := min(len(rest), 1+d.random.IntN(len(wasm)))
		_, err := file.Write(rest[:n])
		must(d.t, err)
		if rest = rest[n:]; len(rest) > 0 {
			pauses = append(pauses, d.randomPause())
		}
	}
	must(d.t, file.Close())
	p.loadable, p.version = true, version
	d.record(p, "overwritten in place by %s with pauses %v", version, pauses)
}

// remove removes the module and keeps the policy.
func (d *soakDirectory) remove(p *soakPlugin) {
	d.removeFile(d.file(p))
	p.present, p.keepsRunning = false, false
	d.record(p, "removed")
}

func (d *soakDirectory) removeFile(path string) {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		must(d.t, err)
	}
}

// renameTemporarily gives the module another name, which is that of another plugin
// or of none, and then its own again.
func (d *soakDirectory) renameTemporarily(p *soakPlugin) {
	if !p.present {
		return
	}
	other := d.file(p) + ".bak"
	if d.random.IntN(2) == 0 {
		other = filepath.Join(d.path, p.name()+"-old.wasm") // is refused: its manifest has another name
	}
	p.keepsRunning = false
	must(d.t, os.Rename(d.file(p), other))
	pause := d.randomPause()
	must(d.t, os.Rename(other, d.file(p)))
	d.record(p, "was %s for %s", filepath.Base(other), pause)
}

// swapSymlinks replaces both files as a ConfigMap volume does: they are symbolic
// links through a link to a hidden directory, and that link is replaced.
func (d *soakDirectory) swapSymlinks(p *soakPlugin) {
	wasm, version := d.next(p, d.variant())
	data, hidden := "..data-"+p.name(), fmt.Sprintf("..%s-%s", p.name(), version)
	note := "note of " + version
	must(d.t, os.Mkdir(filepath.Join(d.path, hidden), 0o755))
	must(d.t, os.WriteFile(filepath.Join(d.path, hidden, p.name()+".wasm"), wasm, 0o644))
	writeFile(d.t, filepath.Join(d.path, hidden), p.name()+".yaml", policyWith(note))
	before, _ := os.Readlink(filepath.Join(d.path, data))
	d.link(hidden, data)
	// The first time, the files become links one after the other: the new version
	// may run under the old policy.
	p.versions[version], p.notes[note] = true, true
	d.link(filepath.Join(data, p.name()+".wasm"), p.name()+".wasm")
	d.link(filepath.Join(data, p.name()+".yaml"), p.name()+".yaml")
	if before != "" {
		must(d.t, os.RemoveAll(filepath.Join(d.path, before)))
	}
	p.present, p.loadable, p.version, p.note, p.policyValid = true, true, version, note, true
	d.record(p, "links swapped to %s with %q", version, note)
}

// link makes a name a symbolic link by a rename, unless it is that already.
func (d *soakDirectory) link(target, name string) {
	path := filepath.Join(d.path, name)
	if present, err := os.Readlink(path); err == nil && present == target {
		return
	}
	must(d.t, os.Symlink(target, path+".tmp"))
	must(d.t, os.Rename(path+".tmp", path))
}

// policyWith returns a policy with a note, which the plugin writes into its objects.
func policyWith(note string) string {
	return fmt.Sprintf("apiVersion: thole.dev/v1alpha1\nconfig: {note: %q}\n", note)
}

// writePolicy writes a valid policy, whose limits are narrower than the host's or
// the same.
func (d *soakDirectory) writePolicy(p *soakPlugin) {
	d.version++
	p.note, p.policyValid = fmt.Sprintf("note %d", d.version), true
	limits := []string{
		"", "limits: {concurrency: 3}\n", "limits: {memoryMiB: 32}\n", "limits: {writesPerSecond: 80}\n",
	}[d.random.IntN(4)]
	replaceFile(d.t, d.policyFile(p), []byte(policyWith(p.note)+limits))
	d.record(p, "policy %q %q", p.note, limits)
}

func (d *soakDirectory) writeInvalidPolicy(p *soakPlugin) {
	text := "apiVersion: thole.dev/v1alpha1\n" + []string{
		"config: [unclosed", "confg: {}\n", "allow: [{groups: [''], kinds: [Secret], verbs: [get]}]\n", "limits: {memoryMiB: 4096}\n", "limits: {fuel: 0}\n",
	}[d.random.IntN(5)]
	replaceFile(d.t, d.policyFile(p), []byte(text))
	p.policyValid = false
	d.record(p, "invalid policy %q", text)
}

func (d *soakDirectory) removePolicy(p *soakPlugin) {
	d.removeFile(d.policyFile(p))
	p.note, p.policyValid = "", true
	d.record(p, "policy removed")
}

// createEditorFiles creates and removes files as editors do, which are no plugins.
func (d *soakDirectory) createEditorFiles(p *soakPlugin) {
	wasm, _ := d.next(p, d.modules.trap)
	for _, name := range []string{"." + p.name() + ".wasm.swp", p.name() + ".wasm~", "4913", "." + p.name() + ".wasm"} {
		path := filepath.Join(d.path, name)
		must(d.t, os.WriteFile(path, wasm, 0o644))
		d.randomPause()
		must(d.t, os.Remove(path))
	}
	d.record(p, "editor files")
}

// touch changes the times of the module and nothing else.
func (d *soakDirectory) touch(p *soakPlugin) {
	if p.present {
		must(d.t, os.Chtimes(d.file(p), time.Now(), time.Now()))
		d.record(p, "touched")
	}
}

// moveDirectoryTemporarily moves the whole directory away and back. All plugins
// must keep running.
func (d *soakDirectory) moveDirectoryTemporarily(*soakPlugin) {
	must(d.t, os.Rename(d.path, d.path+".away"))
	pause := d.randomPause()
	must(d.t, os.Rename(d.path+".away", d.path))
	d.logf("the directory was away for %s", pause)
}
