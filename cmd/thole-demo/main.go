// Thole-demo runs an example plugin on a real control plane and tells in the
// terminal what happens. `make demo` builds what it needs and starts it.
//
// Everything it makes is in one temporary directory and in two processes that
// end with it. Exit codes: 0 done, 1 failed, 2 wrong use. The story goes to
// standard output, errors to standard error.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/thole-dev/thole/cmd/internal/ending"
)

const (
	exitFailed = 1
	exitUsage  = 2
)

// The kernel kills a child when the thread that started it ends
// (PR_SET_PDEATHSIG). Children are started by the main goroutine, which stays
// on the main thread, which ends with the process.
func init() { runtime.LockOSThread() }

func main() { os.Exit(execute(os.Args[1:], os.Stdout, os.Stderr)) }

func execute(args []string, stdout *os.File, stderr io.Writer) int {
	o, err := parse(args, os.Getenv("DEMO_ONCE"), stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "thole-demo: %v\nRun 'thole-demo --help' for usage.\n", err)
		return exitUsage
	}
	end := ending.Catch()
	defer end.Release()
	d := &demo{options: o, out: newPrinter(stdout, os.Getenv("NO_COLOR") != ""), ending: end}
	if err := d.run(); err != nil {
		writeFailure(stderr, err)
		return exitFailed
	}
	return 0
}

// options is how the demo is run.
type options struct {
	devcluster   string // path of the control plane's binary
	thole        string // path of the host's binary
	plugins      string // directory of the compiled plugins
	manifestsDir string // directory that holds <plugin>/crd.yaml and sample.yaml
	once         bool   // end when the sample is Ready
	timeout      time.Duration
}

func parse(args []string, onceEnv string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("thole-demo", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.devcluster, "devcluster", "bin/thole-devcluster", "the control plane's `binary`")
	flags.StringVar(&o.thole, "thole", "bin/thole", "the host's `binary`")
	flags.StringVar(&o.plugins, "plugins", "bin/plugins", "`directory` of the compiled plugins")
	flags.StringVar(&o.manifestsDir, "manifests", "plugins", "`directory` that holds <plugin>/crd.yaml and sample.yaml")
	flags.BoolVar(&o.once, "once", false, "end when the sample is Ready; DEMO_ONCE=1 does the same")
	flags.DurationVar(&o.timeout, "timeout", 5*time.Minute, "how `long` after the start the sample may take to be Ready")
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		flags.SetOutput(stderr)
		fmt.Fprintf(stderr, "Run the %s example on a real control plane until Ctrl-C.\n\n", plugin)
		flags.PrintDefaults()
		return o, err
	case err != nil && strings.HasSuffix(err.Error(), "flag -timeout: parse error"):
		return o, errors.New("--timeout is no duration: write it as 90s or 5m")
	case err != nil:
		return o, err
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.timeout <= 0:
		return o, fmt.Errorf("--timeout %s: want more than 0", o.timeout)
	}
	if onceEnv != "" && !o.once {
		if o.once, err = strconv.ParseBool(onceEnv); err != nil {
			return o, fmt.Errorf("DEMO_ONCE=%s: want 1 or 0", onceEnv)
		}
	}
	return o, nil
}
