package host

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/sandbox"
)

func TestALoadFailureNamesThePluginsFunctions(t *testing.T) {
	fault := &sandbox.Fault{Class: abi.ClassPanic, Message: "panic: no table", Stack: []string{"runtime._panic", "main.init.0"}}
	got := loadFailure{&sandbox.LoadError{Plugin: "p", Step: sandbox.StepInitialize, Err: fault}}.Error()
	want := `plugin "p": run _initialize: panic: no table; in main.init.0; this is the plugin's own code`
	if !strings.HasPrefix(got, want) {
		t.Errorf("%s\nwant %s ...", got, want)
	}
}

func TestOnlyAFaultIsTheGuests(t *testing.T) {
	gone := errors.New("no instance could be made")
	if err := dispatchFault(gone); !errors.Is(err, gone) {
		t.Errorf("%v", err)
	}
	fault := &sandbox.Fault{Class: abi.ClassTimeout, Message: "the deadline passed", Stack: []string{"main.spin"}}
	got, ok := errors.AsType[*dispatch.Fault](dispatchFault(fmt.Errorf("plugin %q: %w", "p", fault)))
	if !ok || got.Class != abi.ClassTimeout || got.Message != `plugin "p": timeout: the deadline passed` || !slices.Equal(got.Stack, fault.Stack) {
		t.Errorf("%+v", got)
	}
}
