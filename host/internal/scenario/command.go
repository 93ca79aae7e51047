package scenario

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// A command is one word of the language of scripts. Exactly one of run and check is
// set.
type command struct {
	usage string // how it is used, one form per line, without its name
	// run does something. It fails the script by an error.
	run func(s *script, args []string) error
	// check returns an observation, which returns nil if it is as the arguments say.
	// It is repeated until then, see wait.
	check func(s *script, flags *flag.FlagSet, args []string) (func() error, error)
	// early is set if the command needs no cluster.
	early bool
}

// wait is for how long a check is repeated.
type wait struct {
	within time.Duration // until it holds; 0 is the limit of the script
	during time.Duration // that it must hold then
}

// table has all commands by name. It is a function because commands refer to it.
func table() map[string]command {
	return map[string]command{
		"absent":    {usage: "[-n NAMESPACE] RESOURCE/NAME", check: absent},
		"annotate":  {usage: "[-n NAMESPACE] RESOURCE/NAME KEY=VALUE|KEY- ...", run: annotate},
		"apply":     {usage: "FILE ...", run: apply},
		"cluster":   {usage: "own\nrestart\nsave NAME\nrestore NAME", run: changeCluster, early: true},
		"count":     {usage: "[-n NAMESPACE] [-l SELECTOR] RESOURCE NUMBER", check: count},
		"create":    {usage: "FILE ...", run: create},
		"delete":    {usage: "[-n NAMESPACE] [-orphan] RESOURCE/NAME", run: remove},
		"event":     {usage: "[-n NAMESPACE] RESOURCE/NAME TYPE REASON [TEXT]", check: event},
		"expect":    {usage: "[-n NAMESPACE] RESOURCE/NAME [PATH=VALUE|PATH!=VALUE|PATH~=PART|condition:TYPE[.FIELD]=VALUE|observed] ...", check: expect},
		"fault":     {usage: "VERBS RESOURCES FAULT [KEY=VALUE] ...\nclear", run: fault},
		"faults":    {usage: "FILE", run: faults},
		"host":      {usage: "start [-nowait] [ARGUMENT ...]\nstop\nkill\nrestart\npause\ncontinue\nawait-exit\nsupervise", run: host},
		"label":     {usage: "[-n NAMESPACE] RESOURCE/NAME KEY=VALUE|KEY- ...", run: label},
		"log":       {usage: "TEXT", check: logs},
		"metric":    {usage: `NAME[{LABEL="VALUE",...}] =|<=|>= NUMBER`, check: metric},
		"not-ready": {usage: "[TEXT]", check: notReady},
		"own":       {usage: "[-n NAMESPACE] [-controller] RESOURCE/NAME OWNER-RESOURCE/NAME", run: own},
		"patch":     {usage: "[-n NAMESPACE] [-status|-scale] RESOURCE/NAME JSON\n[-n NAMESPACE] [-status|-scale] -l SELECTOR RESOURCE JSON", run: patch},
		"plugin":    {usage: "[-compiler tinygo|go] NAME|DIRECTORY|FILE [as NAME]\n-policy NAME FILE\n-remove NAME", run: plugin},
		"plugins":   {usage: "NAME STATE [TEXT]", check: plugins},
		"ready":     {usage: "", check: ready},
		"served":    {usage: "has PATH TEXT\nlacks PATH\nrequests METHOD NUMBER\nauthorization TEXT", check: served},
		"service":   {usage: "start [FILE ...]\nup\ndown\nslow TIME\nstatus CODE\nredirect URL\nmoved\nwrong-certificate", run: changeService},
		"refused":   {usage: "FILE TEXT", check: refused},
		"reviewed":  {usage: "FILE PATH=VALUE ...", check: reviewed},
		"requests":  {usage: "reset\n[VERBS [RESOURCES]] [code=CODE] =|<=|>= NUMBER", check: requests},
	}
}

// commands returns all commands as testscript takes them.
func commands() map[string]func(*testscript.TestScript, bool, []string) {
	all := map[string]func(*testscript.TestScript, bool, []string){}
	for name, c := range table() {
		all[name] = c.command(name)
	}
	return all
}

func (c command) command(name string) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, not bool, args []string) {
		s := ts.Value(scriptKey{}).(*script)
		if err := c.perform(s, not, args); errors.Is(err, errUsage) {
			ts.Fatalf("%v\n%s", err, c.help(name))
		} else if err != nil {
			ts.Fatalf("%v\n\nend of the log:\n%s", err, s.logTail())
		}
	}
}

// errUsage is an error that the help of the command follows.
var errUsage = errors.New("wrong use")

func wrongUse(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errUsage, fmt.Sprintf(format, args...))
}

// help returns the forms of a command.
func (c command) help(name string) string {
	var b strings.Builder
	for form := range strings.SplitSeq(c.usage, "\n") {
		if c.check != nil && form != "reset" {
			form = strings.TrimSpace("[-within TIME] [-for TIME] " + form)
		}
		fmt.Fprintf(&b, "usage: %s %s\n", name, form)
	}
	return b.String()
}

func (c command) perform(s *script, not bool, args []string) error {
	if not && c.check == nil {
		return wrongUse("only a command that checks something may follow !")
	}
	if !c.early {
		if err := s.connect(); err != nil {
			return err
		}
	}
	if c.check == nil {
		return c.run(s, args)
	}
	var w wait
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	flags.DurationVar(&w.within, "within", 0, "")
	flags.DurationVar(&w.during, "for", 0, "")
	observe, err := c.check(s, flags, args)
	switch {
	case err != nil || observe == nil:
		return err
	case not && w.within > 0:
		return wrongUse("-within has no meaning after !, which does not wait")
	case not:
		return s.hold(w.during, negated(observe, args))
	}
	return s.await(w, observe)
}

// negated returns the opposite of an observation.
func negated(observe func() error, args []string) func() error {
	return func() error {
		if observe() == nil {
			return fmt.Errorf("this holds: %s", strings.Join(args, " "))
		}
		return nil
	}
}

// parse reads flags, which may stand before, between and after the other arguments,
// and returns those. There must be at least and at most so many.
func parse(flags *flag.FlagSet, args []string, least, most int) (rest []string, err error) {
	flags.SetOutput(io.Discard)
	for len(args) > 0 {
		if err := flags.Parse(args); err != nil {
			return nil, wrongUse("%v", err)
		}
		if args = flags.Args(); len(args) > 0 {
			rest, args = append(rest, args[0]), args[1:]
		}
	}
	if len(rest) < least || len(rest) > most {
		return nil, wrongUse("%d arguments", len(rest))
	}
	return rest, nil
}
