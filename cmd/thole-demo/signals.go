package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// errInterrupted is the end that the user asked for.
var errInterrupted = errors.New("interrupted")

// ending is how a user ends the demo.
type ending struct {
	asked  context.Context //nolint:containedctx // it is the signal itself, as a value to select on
	hurry  chan struct{}   // closed by a second signal: do not wait for anything
	cancel context.CancelCauseFunc
	stop   func()
}

// catchSignals lets the first signal ask for the end and the second one for
// haste. A write to a closed pipe becomes an error instead of the death of the
// process, which would leave its directory behind.
func catchSignals() *ending {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // by nohup
		signal.Notify(signals, syscall.SIGHUP)
	}
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	e := &ending{hurry: make(chan struct{})}
	e.asked, e.cancel = context.WithCancelCause(context.Background())
	released := make(chan struct{})
	e.stop = func() {
		signal.Stop(signals)
		close(released)
	}
	go func() {
		for _, act := range []func(){e.ask, func() { close(e.hurry) }} {
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

// ask ends the demo.
func (e *ending) ask() { e.cancel(errInterrupted) }

// release gives the signals back.
func (e *ending) release() {
	e.stop()
	e.cancel(nil)
}
