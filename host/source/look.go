package source

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// look is what the stats of a path say. While they stay the same the content
// does, but for a change in the same tick of the clock. Looks are comparable.
type look struct {
	state    state
	fault    fault // of a state that is faulty
	mode     fs.FileMode
	size     int64
	modified int64 // Unix ns
	changed  int64 // Unix ns; of the content or of the stats, where the system tells it
	inode    uint64
	device   uint64
}

type state int

const (
	absent  state = iota
	regular       // a file, or a link to one
	faulty        // something else, or out of reach
)

// fault is what is wrong with a path, for people.
type fault string

func (f fault) Error() string { return string(f) }

const (
	faultDangling  fault = "is a symbolic link to a file that is not there: put the file there, or remove the link"
	faultDirectory fault = "is a directory: put a file in its place, or give it another name"
	faultIrregular fault = "is no regular file: put one in its place, or remove it"
	faultLoop      fault = "is a symbolic link that leads to itself: point it at a file, or remove it"
)

// lookAt follows links: ConfigMap volumes are made of them.
func lookAt(path string) look {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && isLink(path):
		return look{state: faulty, fault: faultDangling}
	case errors.Is(err, fs.ErrNotExist):
		return look{}
	case err != nil:
		return look{state: faulty, fault: faultOf(err)}
	}
	return lookOf(info)
}

func lookOf(info fs.FileInfo) look {
	switch mode := info.Mode(); {
	case mode.IsDir():
		return look{state: faulty, fault: faultDirectory}
	case !mode.IsRegular():
		return look{state: faulty, fault: faultIrregular}
	}
	return statsOf(info)
}

// statsOf is of directories, too.
func statsOf(info fs.FileInfo) look {
	l := look{
		state: regular, mode: info.Mode(), size: info.Size(),
		modified: info.ModTime().UnixNano(), changed: info.ModTime().UnixNano(),
	}
	l.identify(info)
	return l
}

// changedAt is when the file was last written or put there.
func (l look) changedAt() time.Time { return time.Unix(0, l.changed) }

func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&os.ModeSymlink != 0
}

// faultOf leaves out the path, which whoever tells of the fault names.
func faultOf(err error) fault {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		err = at.Err
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fault(err.Error() + ": let the user that the host runs as read it")
	case errors.Is(err, syscall.ELOOP):
		return faultLoop
	}
	return fault(err.Error())
}
