package main

import (
	"errors"
	"flag"
	"io"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "write the golden files")

// buildDir holds what the tests build, if they do; [TestMain] removes it.
var buildDir string

// childMark makes this test binary the demo: see [TestMain].
const childMark = "THOLE_DEMO_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childMark) != "" {
		main()
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(buildDir)
		os.Exit(code)
	}))
}

func TestFlags(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		once string
		want options
	}{
		"defaults": {want: options{
			devcluster: "bin/thole-devcluster", thole: "bin/thole", plugins: "bin/plugins", manifestsDir: "plugins", timeout: 5 * time.Minute,
		}},
		"all": {
			args: []string{"--devcluster=a", "--thole=b", "--plugins=c", "--manifests=d", "--once", "--timeout=1s"},
			want: options{devcluster: "a", thole: "b", plugins: "c", manifestsDir: "d", once: true, timeout: time.Second},
		},
		"once by environment": {once: "1", want: options{
			devcluster: "bin/thole-devcluster", thole: "bin/thole", plugins: "bin/plugins", manifestsDir: "plugins", timeout: 5 * time.Minute, once: true,
		}},
		"not once by environment": {once: "0", want: options{
			devcluster: "bin/thole-devcluster", thole: "bin/thole", plugins: "bin/plugins", manifestsDir: "plugins", timeout: 5 * time.Minute,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parse(c.args, c.once, io.Discard)
			if err != nil || got != c.want {
				t.Errorf("got %+v, %v, want %+v", got, err, c.want)
			}
		})
	}
}

func TestWrongUse(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		once string
	}{
		"unknown flag":   {args: []string{"--colour"}},
		"argument":       {args: []string{"now"}},
		"no time":        {args: []string{"--timeout=0s"}},
		"no such answer": {once: "perhaps"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("DEMO_ONCE", c.once)
			if code := execute(c.args, os.Stdout, io.Discard); code != exitUsage {
				t.Errorf("exit code %d, want %d", code, exitUsage)
			}
		})
	}
}

func TestADurationWithoutUnit(t *testing.T) {
	if _, err := parse([]string{"--timeout", "5"}, "", io.Discard); err == nil || err.Error() != "--timeout is no duration: write it as 90s or 5m" {
		t.Errorf("got %v", err)
	}
}

func TestHelp(t *testing.T) {
	if _, err := parse([]string{"--help"}, "", io.Discard); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("got %v", err)
	}
	t.Setenv("DEMO_ONCE", "")
	if code := execute([]string{"--help"}, os.Stdout, io.Discard); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
