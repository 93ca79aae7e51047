package main

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/thole-dev/thole/cmd/internal/commandtest"
)

// TestWrongUseOfTasksIsRefused starts nothing that takes long.
func TestWrongUseOfTasksIsRefused(t *testing.T) {
	if err := commandtest.DependOn(".ci"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		command string
		code    int
		output  string // how it begins; "": there is none
	}{
		{".ci/soak-arguments 8h30m", 0, ""},
		{".ci/soak-arguments 1.5h 18446744073709551615", 0, ""},
		{".ci/soak-arguments nonsense", 2, "soak: SOAK=nonsense is not a duration: write it as 3m, 90s or 8h30m\n"},
		{".ci/soak-arguments -3m", 2, "soak: SOAK=-3m is not a duration: "},
		{".ci/soak-arguments 3", 2, "soak: SOAK=3 is not a duration: "},
		{".ci/soak-arguments 3m seed", 2, "soak: SOAK_SEED=seed is not a seed: "},
		{".ci/soak-arguments 3m -1", 2, "soak: SOAK_SEED=-1 is not a seed: "},
		{"make -s fuzz FUZZ=nonsense", 2, "fuzz: no target matches FUZZ=nonsense: "},
		{"make -s soak SOAK=nonsense", 2, "soak: SOAK=nonsense is not a duration: "},
	} {
		words := strings.Fields(c.command)
		task := exec.CommandContext(t.Context(), words[0], words[1:]...)
		task.Dir, task.Env = commandtest.Repository, outsideMake()
		out, err := task.CombinedOutput()
		code := 0
		if ended, ok := errors.AsType[*exec.ExitError](err); ok {
			code, err = ended.ExitCode(), nil
		}
		if err != nil || code != c.code || !strings.HasPrefix(string(out), c.output) || c.output == "" && len(out) > 0 {
			t.Errorf("%s: %v, exit code %d, want %d\n got %s\nwant %s", c.command, err, code, c.code, out, c.output)
		}
	}
}

// outsideMake returns the environment without the variables of make, by which this test
// may be run.
func outsideMake() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "MAKE") || strings.HasPrefix(variable, "MFLAGS")
	})
}
