package source

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// localTypes are the file systems whose files are written through this kernel
// alone. Of a file that others may write, by a network or from outside of a
// virtual machine, a lease says nothing: some of these systems grant it
// without asking anybody, some always refuse it.
var localTypes = map[uint32]bool{
	unix.BTRFS_SUPER_MAGIC:     true,
	unix.EXT4_SUPER_MAGIC:      true, // ext2 and ext3, too
	unix.F2FS_SUPER_MAGIC:      true,
	unix.OVERLAYFS_SUPER_MAGIC: true,
	unix.RAMFS_MAGIC:           true,
	unix.TMPFS_MAGIC:           true,
	unix.XFS_SUPER_MAGIC:       true,
	0xca451a4e:                 true, // bcachefs
	0x2fc12fc1:                 true, // ZFS
}

// claimFile takes a read lease, see fcntl(2): the kernel refuses it while any
// process has the file open for writing.
func claimFile(f *os.File) claim {
	var stat unix.Statfs_t
	local := control(f, func(fd int) error { return unix.Fstatfs(fd, &stat) }) == nil && localTypes[uint32(stat.Type)]
	if !local {
		return unclaimed(unknown, false)
	}
	err := control(f, func(fd int) error {
		// Whoever opens the file for writing meanwhile makes the kernel signal
		// this process. By default that is SIGIO, which ends a process that does
		// not handle it; SIGURG is ignored, and Go's runtime expects stray ones.
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETSIG, int(unix.SIGURG)); err != nil {
			return err
		}
		return lease(fd, unix.F_RDLCK)
	})
	switch {
	case err == nil:
		// No lease to give back: it took too long, and the kernel let a writer in.
		return claim{answer: held, local: true, release: func() bool {
			return control(f, func(fd int) error { return lease(fd, unix.F_UNLCK) }) == nil
		}}
	case errors.Is(err, unix.EAGAIN):
		return unclaimed(written, true)
	default: // the file is another user's, or leases are turned off
		return unclaimed(unknown, true)
	}
}

func lease(fd, kind int) error {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, kind)
	return err
}

func control(f *os.File, do func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = do(int(fd)) }); err != nil {
		return err
	}
	return failed
}
