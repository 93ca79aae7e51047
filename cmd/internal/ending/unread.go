//go:build unix

package ending

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// WhenUnread calls lost when nobody reads out any more: the other end of the
// pipe or the terminal is gone. A command that is silent, as it is most of the
// time, would not notice it by writing. It is never called for a file.
func WhenUnread(out *os.File, lost func()) {
	go func() {
		fds := []unix.PollFd{{Fd: int32(out.Fd())}} // asked for nothing: told of errors only
		for {
			_, err := unix.Poll(fds, -1)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if err == nil && fds[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0 {
				lost()
			}
			return
		}
	}()
}
