package lastgood

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/host/internal/devcluster"
	"github.com/thole-dev/thole/host/kube"
)

const most = 1 << 20

func module(text string) (content []byte, digest string) {
	return []byte(text), Digest([]byte(text))
}

func expectNotKept(t *testing.T, got []byte, err error, text string) {
	t.Helper()
	if got != nil || !errors.Is(err, ErrNotKept) || !strings.Contains(err.Error(), text) {
		t.Errorf("got %q, %v, want an error with %q", got, err, text)
	}
}

func TestDirectoryReturnsWhatWasWritten(t *testing.T) {
	d := Directory{Path: filepath.Join(t.TempDir(), "modules"), MaxModule: most}
	one, first := module("one")
	two, second := module("two")
	got, err := d.Read("p", first)
	expectNotKept(t, got, err, first)
	if err := errors.Join(d.Write("p", first, Pack(one)), d.Write("p", second, Pack(two)), d.Write("q", first, Pack(one))); err != nil {
		t.Fatal(err)
	}
	for plugin, digest := range map[string]string{"p": second, "q": first} {
		if got, err := d.Read(plugin, digest); err != nil || Digest(got) != digest {
			t.Errorf("%s: %q, %v", plugin, got, err)
		}
	}
	if err := d.Retain("p", second, "another"); err != nil || d.Has("p", first) || !d.Has("p", second) || !d.Has("q", first) {
		t.Errorf("after the first one of p was dropped: %v", err)
	}
	if got := d.Plugins(); !slices.Equal(got, []string{"p", "q"}) {
		t.Errorf("plugins %v", got)
	}
	if err := errors.Join(d.Remove("p"), d.Remove("p"), d.Retain("p")); err != nil || d.Has("p", second) {
		t.Errorf("after p was removed: %v", err)
	}
}

// TestDirectoryReturnsNoOtherModule: what is in the file is what was asked for, or an error.
func TestDirectoryReturnsNoOtherModule(t *testing.T) {
	one, digest := module("one")
	other, _ := module("other")
	bomb := bytes.Repeat([]byte{0}, most+1)
	for text, content := range map[string][]byte{
		"has the digest sha256:" + Digest(other): Pack(other),
		"no module":                              one,
		"unexpected EOF":                         Pack(one)[:20],
		"more than the limit of 1048576 bytes":   Pack(bomb),
	} {
		d := Directory{Path: t.TempDir(), MaxModule: most}
		if err := d.Write("p", digest, content); err != nil {
			t.Fatal(err)
		}
		got, err := d.Read("p", digest)
		expectNotKept(t, got, err, text)
	}
	d := Directory{Path: t.TempDir(), MaxModule: most}
	if err := d.Write("p", Digest(bomb[:most]), Pack(bomb[:most])); err != nil {
		t.Fatal(err)
	}
	if got, err := d.Read("p", Digest(bomb[:most])); err != nil || len(got) != most {
		t.Errorf("a module at the limit: %d bytes, %v", len(got), err)
	}
}

func TestDirectoryThatCannotBeWrittenKeepsWhatItHas(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d := Directory{Path: path, MaxModule: most}
	one, digest := module("one")
	if err := d.Write("p", digest, Pack(one)); err == nil {
		t.Error("there is no error")
	}
	if d.Has("p", digest) || len(d.Plugins()) > 0 {
		t.Error("it has something")
	}
}

func newSecrets(t *testing.T) Secrets {
	t.Helper()
	clients, err := kube.New(devcluster.Shared(t).Config)
	if err != nil {
		t.Fatal(err)
	}
	return Secrets{Client: clients.Secrets("default"), Namespace: "default", Prefix: "thole-last-good-", MaxModule: most}
}

func TestSecretsReturnWhatWasWritten(t *testing.T) {
	s := newSecrets(t)
	one, first := module("one")
	two, second := module("two")
	got, err := s.Read(t.Context(), "p", first)
	expectNotKept(t, got, err, "not found")
	for _, m := range [][]byte{one, two, two} {
		if err := s.Write(t.Context(), "p", Pack(m)); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := s.Read(t.Context(), "p", second); err != nil || string(got) != "two" {
		t.Errorf("%q, %v", got, err)
	}
	got, err = s.Read(t.Context(), "p", first)
	expectNotKept(t, got, err, "has the digest sha256:"+second)
}

func TestSecretsWriteOnlyWhatHasChanged(t *testing.T) {
	s := newSecrets(t)
	one, _ := module("one")
	version := func() string {
		t.Helper()
		if err := s.Write(t.Context(), "same", Pack(one)); err != nil {
			t.Fatal(err)
		}
		secret, err := s.Client.Get(t.Context(), s.Name("same"), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return secret.ResourceVersion
	}
	if first := version(); version() != first {
		t.Error("it is written again")
	}
}

// TestSecretsHoldWhatKubernetesTakes: the largest module that is taken is stored, and one byte more is told.
func TestSecretsHoldWhatKubernetesTakes(t *testing.T) {
	s := newSecrets(t)
	if err := s.Write(t.Context(), "large", make(Packed, MaxSecret)); err != nil {
		t.Error(err)
	}
	if err := s.Write(t.Context(), "larger", make(Packed, MaxSecret+1)); err == nil || !strings.Contains(err.Error(), "takes 1024 KiB compressed, and a Secret holds 1023 KiB") {
		t.Errorf("got %v", err)
	}
}

func TestSecretsOfOthersStay(t *testing.T) {
	s := newSecrets(t)
	one, digest := module("one")
	if err := s.Write(t.Context(), "others", Pack(one)); err != nil {
		t.Fatal(err)
	}
	secret, err := s.Client.Get(t.Context(), s.Name("others"), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	delete(secret.Labels, labelManagedBy)
	if _, err := s.Client.Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, read := s.Read(t.Context(), "others", digest)
	for what, err := range map[string]error{"read": read, "write": s.Write(t.Context(), "others", Pack(one))} {
		if err == nil || apierrors.IsNotFound(err) || !strings.Contains(err.Error(), "somebody else's") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
