//go:build !unix

package memory

// addressSpace is a range of addresses in which one linear memory grows. Here
// it is a slice, which moves when it grows.
type addressSpace struct {
	bytes     []byte
	size      uint64
	committed uint64
}

func reserve(size uint64) (*addressSpace, error) { return &addressSpace{size: size}, nil }

// commit makes the first size bytes usable.
func (a *addressSpace) commit(size uint64) error {
	if size > uint64(len(a.bytes)) {
		a.bytes = append(a.bytes, make([]byte, size-uint64(len(a.bytes)))...)
	}
	a.committed = max(a.committed, size)
	return nil
}

func (a *addressSpace) release() { *a = addressSpace{} }
