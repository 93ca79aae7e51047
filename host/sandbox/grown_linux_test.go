package sandbox

import (
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestInstancesThatStartLargerHaveTheirPages: a page that is used for the first time
// takes the kernel longer than any instruction of the guest.
func TestInstancesThatStartLargerHaveTheirPages(t *testing.T) {
	g := load(t, newSandbox(t, Config{}), Plugin{Name: "larger", Wasm: succeeding("larger")})
	in, _, err := g.startInstance(t.Context(), 64)
	if err != nil {
		t.Fatal(err)
	}
	defer in.close(t.Context())
	p, _ := in.memory.Read(0, in.memory.Size())
	p = p[1<<20:]
	pages := make([]byte, len(p)/4096)
	if _, _, failed := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), uintptr(unsafe.Pointer(&pages[0]))); failed != 0 {
		t.Fatal(failed)
	}
	missing := 0
	for _, page := range pages {
		missing += 1 - int(page&1)
	}
	if len(pages) != 48*16 || missing > 0 {
		t.Errorf("%d of %d pages are missing", missing, len(pages))
	}
}
