//go:build !linux

package memory

func (a *addressSpace) preferSmallPages() {}

// zero clears the committed bytes from from to to. No page is given back, and
// keep has no effect.
func (a *addressSpace) zero(from, to, _ uint64) (kept uint64) {
	wipe(a.bytes[from:to])
	return 0
}
