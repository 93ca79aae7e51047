package command

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Interruptible is for a command that runs until the user ends it. The returned
// context ends with the first signal, and hurry is closed by the second one, which
// asks not to wait for anything. Writing to a closed pipe becomes an error instead
// of the death of the process, which would leave its files behind. release must be
// called at the end.
func Interruptible(parent context.Context) (ctx context.Context, hurry <-chan struct{}, release func()) {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		ends = append(ends, syscall.SIGHUP)
	}
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(parent, ends...)
	released, endRelease := context.WithCancel(context.Background())
	second := make(chan struct{})
	context.AfterFunc(ctx, func() {
		again, stop := signal.NotifyContext(released, ends...)
		defer stop()
		<-again.Done()
		if released.Err() == nil {
			close(second)
		}
	})
	return ctx, second, func() {
		signal.Stop(pipe)
		endRelease()
		stop()
	}
}
