package tholetest

import (
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/thole-dev/thole/internal/repository"
)

// Program returns the path of a program of the repository, by its folder such as cmd/thole, as the
// sources are now. The first test process that needs it builds it into bin, the
// others use that. With the race detector it is another file.
func Program(folder string) (string, error) {
	built, _ := programs.LoadOrStore(folder, sync.OnceValues(func() (string, error) { return build(folder) }))
	return built.(func() (string, error))()
}

// programs maps each program to a func() (string, error).
var programs sync.Map

func build(folder string) (string, error) {
	root, err := repository.Root()
	if err != nil {
		return "", err
	}
	path := filepath.Join(root, "bin", filepath.Base(folder))
	if RaceDetector {
		path += "-race"
	}
	unlock, err := repository.Lock(path + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	args := append([]string{"build", "-buildvcs=false", "-o", path}, raceFlags()...)
	// In its own module: a test of another module has other versions of the
	// Kubernetes libraries.
	build := exec.Command("go", append(args, "./"+folder)...)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", folder, err, out)
	}
	return path, dependOn(filepath.Join(root, folder))
}

// raceFlags returns the flags for the race detector, which does not watch the
// engine's compiler. There a plugin of standard Go would take 20 s of the processor
// to load instead of 3 s, and a busy machine exceeds the host's limit of a minute. The
// passes of the compiler have no goroutines.
//
// Packages that use sync.Map or atomic.Pointer must not be excluded: the program
// has one copy of a generic function, and if the detector's calls are missing in
// it, the detector reports races that do not exist.
func raceFlags() []string {
	if !RaceDetector {
		return nil
	}
	flags := []string{"-race"}
	for _, compiler := range []string{"ssa", "frontend", "backend/..."} {
		flags = append(flags, "-gcflags=github.com/tetratelabs/wazero/internal/engine/wazevo/"+compiler+"=-race=false")
	}
	return flags
}

// dependOn makes the cached result of the test depend on the files of a directory,
// by looking at each.
func dependOn(dir string) error {
	return filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil {
			_, err = e.Info()
		}
		return err
	})
}
