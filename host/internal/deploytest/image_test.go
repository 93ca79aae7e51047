package deploytest

import (
	"debug/elf"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// dockerfile has the instructions of a Dockerfile, in order.
type dockerfile []instruction

type instruction struct {
	stage   int // the number of the last FROM before it, from 0
	name    string
	operand string
}

// image reads deploy/Dockerfile.
func image(t *testing.T) (file dockerfile) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "deploy", "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	stage := -1
	for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", " ")) {
		name, operand, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "" || strings.HasPrefix(name, "#") {
			continue
		}
		if name == "FROM" {
			stage++
		}
		file = append(file, instruction{stage, name, strings.TrimSpace(operand)})
	}
	return file
}

// of returns the operands of an instruction in a stage; -1 is the last stage.
func (f dockerfile) of(stage int, name string) (operands []string) {
	if stage < 0 {
		stage = f[len(f)-1].stage
	}
	for _, i := range f {
		if i.stage == stage && i.name == name {
			operands = append(operands, i.operand)
		}
	}
	return operands
}

// user returns the user and group ids of USER.
func (f dockerfile) user(t *testing.T) (uid, gid uint32) {
	t.Helper()
	users := f.of(-1, "USER")
	if len(users) != 1 {
		t.Fatalf("USER in the image: %v, want one", users)
	}
	if _, err := fmt.Sscanf(users[0], "%d:%d", &uid, &gid); err != nil {
		t.Fatalf("USER %s: want two numbers, for the image has no /etc/passwd: %v", users[0], err)
	}
	return uid, gid
}

// entrypoint returns the path of the program in the image.
func (f dockerfile) entrypoint(t *testing.T) string {
	t.Helper()
	var words []string
	if err := json.Unmarshal([]byte(strings.Join(f.of(-1, "ENTRYPOINT"), "\n")), &words); err != nil || len(words) != 1 {
		t.Fatalf("ENTRYPOINT %v: %v", words, err)
	}
	return words[0]
}

const testVersion = "v0.0.0-test"

// program returns the path of thole, built by the command of the Dockerfile.
func program(t *testing.T) string {
	t.Helper()
	path := filepath.Join(scratch, "thole")
	if _, err := os.Stat(path); err == nil {
		return path
	}
	file := image(t)
	dependOn(t, file.of(0, "COPY"))
	commands := slices.DeleteFunc(file.of(0, "RUN"), func(c string) bool { return !strings.Contains(c, "go build") })
	if len(commands) != 1 || !strings.Contains(commands[0], "-o /out/thole ") {
		t.Fatalf("the Dockerfile's build: %q, want one go build -o /out/thole", commands)
	}
	cmd := exec.Command("sh", "-c", strings.ReplaceAll(commands[0], "/out/", scratch+"/"))
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "VERSION="+testVersion, "TARGETOS=", "TARGETARCH=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build as the Dockerfile does: %v\n%s", err, out)
	}
	return path
}

// dependOn visits every source of the program, so that the go command sees that a
// cached result of this test depends on them.
func dependOn(t *testing.T, copies []string) {
	t.Helper()
	for _, c := range copies {
		words := strings.Fields(c)
		for _, source := range words[:len(words)-1] {
			err := filepath.WalkDir(filepath.Join(root, source), func(_ string, _ fs.DirEntry, err error) error { return err })
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestProgramIsStaticallyLinked(t *testing.T) {
	path := program(t)
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
	if out, err := exec.Command(path, "--version").CombinedOutput(); err != nil || !strings.Contains(string(out), testVersion) {
		t.Errorf("thole --version prints %s, %v; want %s", out, err, testVersion)
	}
}

func TestDockerfileCopiesEverySource(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if .Main}}{{$.ImportPath}}{{end}}{{end}}", "./cmd/thole")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range strings.FieldsSeq(string(out)) {
		dir := strings.TrimPrefix(pkg, "github.com/thole-dev/thole/")
		copied := slices.ContainsFunc(image(t).of(0, "COPY"), func(c string) bool {
			folder, _, _ := strings.Cut(c, " ")
			return strings.HasPrefix(dir+"/", folder+"/")
		})
		if !copied {
			t.Errorf("the Dockerfile copies no folder with %s", dir)
		}
	}
}

func TestImageHasTheProgramAndCertificatesOnly(t *testing.T) {
	if from := image(t).of(-1, "FROM"); len(from) != 1 || from[0] != "scratch" {
		t.Errorf("the image is made FROM %v", from)
	}
	if uid, gid := image(t).user(t); uid != 65532 || gid != 65532 {
		t.Errorf("it runs as %d:%d", uid, gid)
	}
	// It contains the first of the files in which crypto/x509 looks for
	// certificates, and the program.
	want := []string{"--from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt", "--from=build /out/thole " + image(t).entrypoint(t)}
	if got := image(t).of(-1, "COPY"); !slices.Equal(got, want) {
		t.Errorf("it copies %q, want %q", got, want)
	}
	labels := strings.Join(image(t).of(-1, "LABEL"), " ")
	for _, label := range []string{"title", "description", "source", "licenses", "version", "revision"} {
		if !strings.Contains(labels, "org.opencontainers.image."+label+"=") {
			t.Errorf("the label %s is missing", label)
		}
	}
}

var (
	goOfModule = regexp.MustCompile(`(?m)^go 1\.(\d+)`)
	goOfImage  = regexp.MustCompile(`golang:1\.(\d+)`)
)

func TestImageIsBuiltByTheGoOfTheModule(t *testing.T) {
	module, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	minor := func(pattern *regexp.Regexp, text string) int {
		m := pattern.FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("no %s in %s", pattern, text)
		}
		n, _ := strconv.Atoi(m[1])
		return n
	}
	if has, needs := minor(goOfImage, image(t).of(0, "FROM")[0]), minor(goOfModule, string(module)); has < needs {
		t.Errorf("the image is built by Go 1.%d, go.mod requires 1.%d", has, needs)
	}
}
