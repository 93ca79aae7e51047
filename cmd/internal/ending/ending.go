// Package ending is how a user ends a command that runs until then: by a signal,
// or by no longer reading what it says.
package ending

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// ErrInterrupted is the end that the user asked for.
var ErrInterrupted = errors.New("interrupted")

// Ending is how a user ends the command.
type Ending struct {
	Asked  context.Context //nolint:containedctx // it is the signal itself, as a value to select on
	Hurry  chan struct{}   // closed by a second signal: do not wait for anything
	cancel context.CancelCauseFunc
	stop   func()
}

// Catch lets the first signal ask for the end and the second one for haste. A
// write to a closed pipe becomes an error instead of the death of the process,
// which would leave its files behind.
func Catch() *Ending {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // by nohup
		signal.Notify(signals, syscall.SIGHUP)
	}
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	e := &Ending{Hurry: make(chan struct{})}
	e.Asked, e.cancel = context.WithCancelCause(context.Background())
	released := make(chan struct{})
	e.stop = func() {
		signal.Stop(signals)
		signal.Stop(pipe)
		close(released)
	}
	go func() {
		for _, act := range []func(){e.Ask, func() { close(e.Hurry) }} {
			select {
			case <-signals:
				act()
			case <-released:
				return
			}
		}
	}()
	return e
}

// Ask ends the command.
func (e *Ending) Ask() { e.cancel(ErrInterrupted) }

// Release gives the signals back.
func (e *Ending) Release() {
	e.stop()
	e.cancel(nil)
}
