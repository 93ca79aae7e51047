package pki

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

var (
	certificates = []string{Authority, APIServer, Admin, ControllerManager}
	leafNames    = certificates[1:]
)

func TestValidFilesAreKept(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	first := ensured(t, dir, now)
	second := ensured(t, dir, now.Add(leafLife-renewBefore-clockSlack))
	expectChanged(t, first, second)
}

func TestCertificatesAreRenewedBeforeTheyExpire(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		later   time.Duration
		changed []string
	}{
		"certificates about to end":   {leafLife - renewBefore + day, pairFiles(leafNames...)},
		"certificates ended":          {leafLife + day, pairFiles(leafNames...)},
		"clock was set back":          {-day, pairFiles(certificates...)},
		"authority about to end":      {authorityLife - renewBefore + day, pairFiles(certificates...)},
		"clock was set back a little": {-clockSlack / 2, nil},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			before := ensured(t, dir, now)
			expectChanged(t, before, ensured(t, dir, now.Add(c.later)), c.changed...)
		})
	}
}

func TestDamagedPairIsReplaced(t *testing.T) {
	for name, c := range map[string]struct {
		damage  func(t *testing.T, dir string)
		changed []string
	}{
		"certificate cut short": {func(t *testing.T, dir string) { truncate(t, dir, CertFile(Admin)) }, pairFiles(Admin)},
		"key missing":           {func(t *testing.T, dir string) { remove(t, dir, KeyFile(Admin)) }, pairFiles(Admin)},
		"key of another":        {swapKey, pairFiles(Admin)},
		"authority missing":     {func(t *testing.T, dir string) { remove(t, dir, CertFile(Authority)) }, pairFiles(certificates...)},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			before := ensured(t, dir, time.Now())
			c.damage(t, dir)
			expectChanged(t, before, ensured(t, dir, time.Now()), c.changed...)
		})
	}
}

// With another key, every token would become invalid.
func TestDamagedServiceAccountKeyIsNotReplaced(t *testing.T) {
	dir := t.TempDir()
	before := ensured(t, dir, time.Now())
	truncate(t, dir, ServiceAccountKey)
	expectChanged(t, before, ensured(t, dir, time.Now()), ServiceAccountKey)
	if data := files(t, dir)[ServiceAccountKey]; len(data) != 0 {
		t.Errorf("damaged key was replaced by %q", data)
	}
}

func TestCertificatesAreSignedByTheAuthority(t *testing.T) {
	dir := t.TempDir()
	ensured(t, dir, time.Now())
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(files(t, dir)[CertFile(Authority)])
	for name, want := range map[string]x509.VerifyOptions{
		APIServer:         {DNSName: "127.0.0.1", KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}},
		Admin:             {KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}},
		ControllerManager: {KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}},
	} {
		p, err := tls.LoadX509KeyPair(filepath.Join(dir, CertFile(name)), filepath.Join(dir, KeyFile(name)))
		if err != nil {
			t.Fatal(err)
		}
		want.Roots = roots
		if _, err := p.Leaf.Verify(want); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestKeysAreReadableByTheOwnerOnly(t *testing.T) {
	dir := t.TempDir()
	ensured(t, dir, time.Now())
	for _, name := range []string{KeyFile(Authority), KeyFile(Admin), ServiceAccountKey} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode != 0o600 {
			t.Errorf("%s has mode %o", name, mode)
		}
	}
}

func pairFiles(names ...string) []string {
	var all []string
	for _, name := range names {
		all = append(all, CertFile(name), KeyFile(name))
	}
	return all
}

func ensured(t *testing.T, dir string, now time.Time) map[string][]byte {
	t.Helper()
	if err := ensure(dir, now); err != nil {
		t.Fatal(err)
	}
	return files(t, dir)
}

func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = data
	}
	return all
}

func expectChanged(t *testing.T, before, after map[string][]byte, want ...string) {
	t.Helper()
	if len(before) != len(after) {
		t.Errorf("%d files became %d", len(before), len(after))
	}
	for name := range before {
		changed := !bytes.Equal(before[name], after[name])
		if changed != slices.Contains(want, name) {
			t.Errorf("%s changed: %v", name, changed)
		}
	}
}

func truncate(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.Truncate(filepath.Join(dir, name), 0); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

func swapKey(t *testing.T, dir string) {
	t.Helper()
	key := files(t, dir)[KeyFile(APIServer)]
	if err := os.WriteFile(filepath.Join(dir, KeyFile(Admin)), key, 0o600); err != nil {
		t.Fatal(err)
	}
}
