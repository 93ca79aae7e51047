//go:build !linux

package memory

func (a *addressSpace) preferSmallPages() {}

// zero clears the committed bytes from from to to. What is zero already is
// only read, so that pages that were never written to take no memory. Nothing
// is given back here, whatever keep says.
func (a *addressSpace) zero(from, to, _ uint64) (kept uint64) {
	wipe(a.bytes[from:to])
	return 0
}
