//go:build !unix

package memory

// addressSpace is the memory of one instance. Without reserved addresses it is a
// slice, which is copied when it grows.
type addressSpace struct {
	bytes     []byte
	size      uint64
	committed uint64 // bytes from the begin
}

func reserve(size uint64) (*addressSpace, error) { return &addressSpace{size: size}, nil }

// commit makes the first size bytes accessible.
func (a *addressSpace) commit(size uint64) error {
	if size > uint64(len(a.bytes)) {
		a.bytes = append(a.bytes, make([]byte, size-uint64(len(a.bytes)))...)
	}
	a.committed = max(a.committed, size)
	return nil
}

func (a *addressSpace) release() { *a = addressSpace{} }
