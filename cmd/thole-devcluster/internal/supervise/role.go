package supervise

import (
	"errors"
	"io"
	"os"
)

const (
	lifelineFD = 3
	reportFD   = 4
	firstFD    = 5
)

// Role is a role's own end of what its parent holds.
type Role struct{ report *os.File }

// Attach is the first call of a process that Start started: from here on it
// ends when its parent does.
func Attach() (*Role, error) {
	lifeline, report := os.NewFile(lifelineFD, "lifeline"), os.NewFile(reportFD, "report")
	if !isPipe(lifeline) || !isPipe(report) {
		return nil, errors.New("a role is only started by its parent")
	}
	go endWith(lifeline)
	return &Role{report: report}, nil
}

func isPipe(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeNamedPipe != 0
}

func endWith(lifeline *os.File) {
	_, _ = io.Copy(io.Discard, lifeline)
	os.Exit(1)
}

// Ready tells the parent that the role serves. It is called once.
func (r *Role) Ready() {
	_, _ = r.report.Write([]byte{'\n'})
	_ = r.report.Close()
}

// File is the i-th of the files that the role was handed.
func (r *Role) File(i int) *os.File { return os.NewFile(uintptr(firstFD+i), "inherited") }
