package deploytest

import (
	"archive/tar"
	"debug/elf"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// engine is a podman with a storage of its own.
type engine struct {
	words []string // of the command
	dir   string   // has the storage
}

const (
	imageName   = "localhost/thole:test"
	testVersion = "v0.0.0-test"
)

// podman returns the engine with the image, which is built once. It skips the test where there is none.
func podman(t *testing.T) *engine {
	t.Helper()
	e, err := builtEngine()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("needs podman: make test-release installs it")
	}
	if err != nil {
		t.Fatal(err)
	}
	return e
}

var builtEngine = sync.OnceValues(func() (*engine, error) {
	path, err := exec.LookPath("podman")
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(scratch, "containers")
	e := &engine{dir: dir, words: []string{path, "--root", filepath.Join(dir, "root"), "--runroot", filepath.Join(dir, "run"), "--storage-driver", "vfs", "--cgroup-manager", "cgroupfs"}}
	if runc, err := exec.LookPath("runc"); err == nil {
		e.words = append(e.words, "--runtime", runc)
	}
	storage = e
	return e, e.build(imageName)
})

// storage is what [removeStorage] removes; nil if nothing was built.
var storage *engine

// build builds the image as `make image` does.
func (e *engine) build(name string) error {
	cmd := exec.Command(filepath.Join(root, ".ci", "image"))
	cmd.Env = append(os.Environ(), "IMAGE="+name, "VERSION="+testVersion, "REVISION=0123abc", "ENGINE="+strings.Join(e.words, " "))
	if out, err := cmd.CombinedOutput(); err != nil {
		return errors.New("build the image: " + err.Error() + "\n" + string(out))
	}
	return nil
}

// command returns a command of the engine.
func (e *engine) command(args ...string) *exec.Cmd {
	return exec.Command(e.words[0], slices.Concat(e.words[1:], args)...)
}

// output returns what a command of the engine prints.
func (e *engine) output(t *testing.T, args ...string) string {
	t.Helper()
	cmd := e.command(args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("podman %s: %v\n%s", strings.Join(args, " "), err, &stderr)
	}
	return string(out)
}

// removeStorage removes what the tests have built; files in it may be another user's.
func removeStorage() error {
	if storage == nil {
		return nil
	}
	return errors.Join(storage.command("rm", "--all", "--force").Run(), storage.command("rmi", "--all", "--force").Run())
}

// program returns the path of thole, compiled as that of the image is, for tests without a container.
func program(t *testing.T) string {
	t.Helper()
	path, err := builtProgram()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var builtProgram = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "thole")
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X github.com/thole-dev/thole/cmd/internal/command.Version="+testVersion, "-o", path, "./cmd/thole")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", errors.New("build thole: " + err.Error() + "\n" + string(out))
	}
	return path, nil
})

// files returns the files of the image, by their names.
func (e *engine) files(t *testing.T, image string) map[string][]byte {
	t.Helper()
	id := strings.TrimSpace(e.output(t, "create", image))
	defer e.output(t, "rm", id)
	exported := filepath.Join(t.TempDir(), "image.tar")
	e.output(t, "export", "-o", exported, id)
	file, err := os.Open(exported)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	files := map[string][]byte{}
	for r := tar.NewReader(file); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeDir {
			continue
		}
		if files[header.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheImageIsTheProgramAndNothingElse(t *testing.T) {
	e := podman(t)
	files := e.files(t, imageName)
	// The engine itself adds what it mounts over.
	for name, content := range files {
		if name != "thole" && len(content) > 0 {
			t.Errorf("the image has %s", name)
		}
	}
	path := filepath.Join(t.TempDir(), "thole")
	if err := os.WriteFile(path, files["thole"], 0o755); err != nil {
		t.Fatal(err)
	}
	expectStatic(t, path)
	var configured []struct {
		Config struct {
			User       string
			Entrypoint []string
			Labels     map[string]string
		}
	}
	if err := json.Unmarshal([]byte(e.output(t, "image", "inspect", imageName)), &configured); err != nil {
		t.Fatal(err)
	}
	c := configured[0].Config
	if c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/thole"}) {
		t.Errorf("it runs %v as %s", c.Entrypoint, c.User)
	}
	for label, want := range map[string]string{"title": "thole", "description": "", "source": "https://github.com/thole-dev/thole", "licenses": "Apache-2.0", "version": testVersion, "revision": "0123abc"} {
		if got := c.Labels["org.opencontainers.image."+label]; got == "" || want != "" && got != want {
			t.Errorf("the label %s is %q, want %q", label, got, want)
		}
	}
}

func expectStatic(t *testing.T, path string) {
	t.Helper()
	file, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if libraries, err := file.ImportedLibraries(); err != nil || len(libraries) > 0 {
		t.Errorf("it is linked against %v, %v", libraries, err)
	}
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("it needs a dynamic linker")
		}
	}
}

// The same sources give the same image, whenever and wherever it is built.
func TestTheImageIsReproducible(t *testing.T) {
	e := podman(t)
	if err := e.build("localhost/thole:again"); err != nil {
		t.Fatal(err)
	}
	id := func(image string) string {
		return e.output(t, "image", "inspect", "--format", "{{.Id}} {{.Digest}}", image)
	}
	if first, again := id(imageName), id("localhost/thole:again"); first != again {
		t.Errorf("the images are %s and %s", first, again)
	}
}

// What is wrong is told before anything is compiled.
func TestWrongUseOfTheImageScriptIsRefused(t *testing.T) {
	for env, want := range map[string]string{
		"ENGINE=no-such-engine --root x": "image: ENGINE=no-such-engine --root x: there is no command no-such-engine",
		"PLATFORM=windows/amd64":         "image: PLATFORM=windows/amd64: the image is for linux",
		"PLATFORM=linux/":                "image: PLATFORM=linux/: the image is for linux",
		"PLATFORM=linux/arm/v7":          "image: PLATFORM=linux/arm/v7: write linux/ARCHITECTURE",
	} {
		cmd := exec.Command("/bin/bash", filepath.Join(root, ".ci", "image"))
		cmd.Env = append(os.Environ(), env)
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v: %s", env, err, out)
		}
	}
}
