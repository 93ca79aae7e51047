package catalog

import "errors"

// failure is why a module does not run; step labels the metric.
type failure struct {
	step string
	err  error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// step names where a load failed, from a bounded set.
func step(err error) string {
	var f *failure
	var s interface{ LoadStep() string }
	var w *WaitError
	switch {
	case errors.As(err, &w):
		return "waiting"
	case errors.As(err, &f):
		return f.step
	case errors.As(err, &s):
		return s.LoadStep()
	default:
		return "start"
	}
}

// mayPass says whether an attempt that failed may succeed later without a new
// module: what it waits for may come, who it overlaps with may go, and a file
// that was replaced while it was read may be the same again.
func mayPass(err error) bool {
	var f *failure
	var s interface{ LoadStep() string }
	var w *WaitError
	return errors.As(err, &w) || errors.As(err, &f) && f.step == "overlap" || errors.As(err, &s) && s.LoadStep() == "read"
}
