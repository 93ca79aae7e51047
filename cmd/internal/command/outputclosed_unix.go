//go:build unix

package command

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// WhenClosed calls closed when the reader of out, a pipe or terminal, has gone. A
// command that writes seldom would not notice it otherwise. It is never called for
// a file.
func WhenClosed(out *os.File, closed func()) {
	go func() {
		fds := []unix.PollFd{{Fd: int32(out.Fd())}} // without events: only errors are reported
		for {
			_, err := unix.Poll(fds, -1)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if err == nil && fds[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0 {
				closed()
			}
			return
		}
	}()
}
