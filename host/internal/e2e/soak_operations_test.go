package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// replace puts a new version in place by a rename.
func (d *soakDirectory) replace(p *soakPlugin, variant []byte) {
	wasm, version := d.next(p, variant)
	d.put(d.file(p), wasm)
	p.present, p.sound, p.version = true, true, version
	d.did(p, "replaced by %s, %d bytes", version, len(wasm))
}

// corrupt puts a file in place that cannot run.
func (d *soakDirectory) corrupt(p *soakPlugin) {
	wasm, _ := d.next(p, d.modules.plain)
	bad, how := soakCorrupt(d.random, wasm)
	d.put(d.file(p), bad)
	p.present, p.sound = true, false
	d.did(p, "replaced by a corrupt file: %s, %d bytes", how, len(bad))
}

// copyInPlace writes a new version over the old one in pieces, as cp does.
func (d *soakDirectory) copyInPlace(p *soakPlugin) {
	wasm, version := d.next(p, d.variant())
	file, err := os.Create(d.file(p))
	done(d.t, err)
	p.present, p.sound = true, false
	var pauses []time.Duration
	for rest := wasm; len(rest) > 0; {
		n := min(len(rest), 1+d.random.IntN(len(wasm)))
		_, err := file.Write(rest[:n])
		done(d.t, err)
		if rest = rest[n:]; len(rest) > 0 {
			pauses = append(pauses, d.wait())
		}
	}
	done(d.t, file.Close())
	p.sound, p.version = true, version
	d.did(p, "%s copied over it with pauses %v", version, pauses)
}

// remove deletes the file; the policy stays.
func (d *soakDirectory) remove(p *soakPlugin) {
	if err := os.Remove(d.file(p)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.t.Fatal(err)
	}
	p.present, p.goesOn = false, false
	d.did(p, "removed")
}

// renameForAMoment gives the file another name, of a plugin or of none, and
// its own again.
func (d *soakDirectory) renameForAMoment(p *soakPlugin) {
	if !p.present {
		return
	}
	other := d.file(p) + ".bak"
	if d.random.IntN(2) == 0 {
		other = filepath.Join(d.path, soakName(p.index)+"-old.wasm") // the manifest has another name
	}
	p.goesOn = false
	done(d.t, os.Rename(d.file(p), other))
	pause := d.wait()
	done(d.t, os.Rename(other, d.file(p)))
	d.did(p, "was %s for %s", filepath.Base(other), pause)
}

// swapLinks does what a volume of a ConfigMap does with a new version of both
// files: they are links through a link to a hidden directory, which is swapped.
func (d *soakDirectory) swapLinks(p *soakPlugin) {
	wasm, version := d.next(p, d.variant())
	name := soakName(p.index)
	data, hidden := "..data-"+name, fmt.Sprintf("..%s-%s", name, version)
	note := "note of " + version
	done(d.t, os.Mkdir(filepath.Join(d.path, hidden), 0o755))
	done(d.t, os.WriteFile(filepath.Join(d.path, hidden, name+".wasm"), wasm, 0o644))
	done(d.t, os.WriteFile(filepath.Join(d.path, hidden, name+".yaml"), []byte(policyOf(note)), 0o644))
	before, _ := os.Readlink(filepath.Join(d.path, data))
	d.link(hidden, data)
	// The first time the files become links, one after the other.
	p.versions[version], p.notes[note] = true, true
	d.link(filepath.Join(data, name+".wasm"), name+".wasm")
	d.link(filepath.Join(data, name+".yaml"), name+".yaml")
	if before != "" {
		done(d.t, os.RemoveAll(filepath.Join(d.path, before)))
	}
	p.present, p.sound, p.version, p.note, p.allowed = true, true, version, note, true
	d.did(p, "links swapped to %s with %q", version, note)
}

// link makes a link by a rename, unless it is there.
func (d *soakDirectory) link(to, name string) {
	path := filepath.Join(d.path, name)
	if have, err := os.Readlink(path); err == nil && have == to {
		return
	}
	done(d.t, os.Symlink(to, path+".tmp"))
	done(d.t, os.Rename(path+".tmp", path))
}

func policyOf(note string) string { return fmt.Sprintf("config: {note: %q}\n", note) }

// policy puts a valid policy in place; its limits are narrower or the host's.
func (d *soakDirectory) policy(p *soakPlugin) {
	d.version++
	p.note, p.allowed = fmt.Sprintf("note %d", d.version), true
	limits := []string{"", "limits: {concurrency: 3}\n", "limits: {memoryMiB: 32}\n", "limits: {writesPerSecond: 80}\n"}[d.random.IntN(4)]
	d.put(d.policyFile(p), []byte(policyOf(p.note)+limits))
	d.did(p, "policy %q %q", p.note, limits)
}

// badPolicy puts one in place that cannot be followed.
func (d *soakDirectory) badPolicy(p *soakPlugin) {
	bad := []string{"config: [unclosed", "confg: {}\n", "crossNamespace: true\n", "limits: {memoryMiB: 4096}\n", "limits: {fuel: 0}\n"}[d.random.IntN(5)]
	d.put(d.policyFile(p), []byte(bad))
	p.allowed = false
	d.did(p, "bad policy %q", bad)
}

func (d *soakDirectory) noPolicy(p *soakPlugin) {
	if err := os.Remove(d.policyFile(p)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.t.Fatal(err)
	}
	p.note, p.allowed = "", true
	d.did(p, "policy removed")
}

// litter makes files that are no plugins, as editors do.
func (d *soakDirectory) litter(p *soakPlugin) {
	wasm, _ := d.next(p, d.modules.trap)
	for _, name := range []string{"." + soakName(p.index) + ".wasm.swp", soakName(p.index) + ".wasm~", "4913", "." + soakName(p.index) + ".wasm"} {
		path := filepath.Join(d.path, name)
		done(d.t, os.WriteFile(path, wasm, 0o644))
		d.wait()
		done(d.t, os.Remove(path))
	}
	d.did(p, "editors' files")
}

// touch changes the file's times and nothing else.
func (d *soakDirectory) touch(p *soakPlugin) {
	if p.present {
		done(d.t, os.Chtimes(d.file(p), time.Now(), time.Now()))
		d.did(p, "touched")
	}
}

// moveDirectory takes all of the directory away, and puts it back. What runs
// goes on.
func (d *soakDirectory) moveDirectory(*soakPlugin) {
	done(d.t, os.Rename(d.path, d.path+".away"))
	pause := d.wait()
	done(d.t, os.Rename(d.path+".away", d.path))
	d.say("the directory was away for %s", pause)
}
