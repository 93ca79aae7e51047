package costtest

import (
	"syscall"
	"time"
)

// threadTime returns the processor time that the calling thread has used, which is the
// same however busy the machine is.
func threadTime() time.Duration {
	const rusageThread = 1 // getrusage(2)
	var usage syscall.Rusage
	if err := syscall.Getrusage(rusageThread, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
