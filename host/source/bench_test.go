package source

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// BenchmarkScan scans 5,000 plugins of 4 KB: for the first time, without a
// change, and after one file was replaced.
func BenchmarkScan(b *testing.B) {
	dir := b.TempDir()
	wasm := make([]byte, 4<<10)
	for i := range 5000 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("p%04d.wasm", i)), wasm, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	directory := func() *Directory {
		d, err := NewDirectory(Config{Path: dir, StableFor: 1, Logger: discard})
		if err != nil {
			b.Fatal(err)
		}
		return d
	}
	scan := func(d *Directory) {
		if s, _, err := d.scan(); err != nil || len(s) != 5000 {
			b.Fatalf("%d plugins, %v", len(s), err)
		}
	}
	first := func() *Directory {
		d := directory()
		if _, _, err := d.scan(); err != nil { // takes the stats that must be stable
			b.Fatal(err)
		}
		scan(d)
		return d
	}
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			first()
		}
	})
	d := first()
	b.Run("unchanged", func(b *testing.B) {
		for b.Loop() {
			scan(d)
		}
	})
	b.Run("one-changed", func(b *testing.B) {
		for b.Loop() {
			replaceFile(b, dir, "p2500.wasm", wasm)
			scan(d)
			scan(d)
		}
	})
}

// BenchmarkYield measures the time from the write or the rename of a file of
// 300 KB until its snapshot is yielded, which is what this package adds to the
// replacement of a plugin.
func BenchmarkYield(b *testing.B) {
	wasm := make([]byte, 300<<10)
	for name, put := range map[string]func(b *testing.B, dir string){
		"renamed": func(b *testing.B, dir string) {
			b.Helper()
			replaceFile(b, dir, "a.wasm", wasm)
		},
		"copied": func(b *testing.B, dir string) {
			b.Helper()
			if err := os.WriteFile(filepath.Join(dir, "a.wasm"), wasm, 0o600); err != nil {
				b.Fatal(err)
			}
		},
	} {
		b.Run(name, func(b *testing.B) {
			dir := b.TempDir()
			d, err := NewDirectory(Config{Path: dir, Period: time.Hour, Logger: discard})
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(b.Context())
			snapshots, done := make(chan Snapshot, 16), make(chan error, 1)
			go func() { done <- d.Run(ctx, func(s Snapshot) { snapshots <- s }) }()
			<-snapshots
			for i := 0; b.Loop(); i++ {
				wasm[0], wasm[1] = byte(i), byte(i>>8)
				put(b, dir)
				for want := digestOf(wasm); ; {
					if s := <-snapshots; len(s) == 1 && s[0].Digest == want {
						break
					}
				}
			}
			cancel()
			if err := <-done; err != nil {
				b.Fatal(err)
			}
		})
	}
}

func replaceFile(b *testing.B, dir, name string, content []byte) {
	b.Helper()
	next := filepath.Join(dir, ".next")
	if err := os.WriteFile(next, content, 0o600); err != nil {
		b.Fatal(err)
	}
	if err := os.Rename(next, filepath.Join(dir, name)); err != nil {
		b.Fatal(err)
	}
}
