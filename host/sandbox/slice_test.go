package sandbox

import (
	"context"
	"slices"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/tck"
)

// countTicks returns how many ticks one call of a guest has, and that call.
func countTicks(t *testing.T, file []byte) (ticks int, out Return) {
	t.Helper()
	g := load(t, newSandbox(t, Config{}), Plugin{Name: "ticks", Wasm: file})
	onSlice = func(begins bool) {
		if !begins {
			ticks++
		}
	}
	defer func() { onSlice = nil }()
	return ticks, reconcile(t, g, Call{Now: callTime})
}

// reading returns a guest that grows its memory by some pages and then reads it
// that many times, 32 reads after one another.
func reading(pages int32, times int32) []byte {
	tg := newTestGuest("ticks")
	body := slices.Concat(
		tck.I32Const(pages), tck.MemoryGrow, tck.Drop,
		tck.Loop,
		tck.I32Const(0), slices.Concat(slices.Repeat([][]byte{slices.Concat(tck.I32Load, tck.I32Const(0), tck.I32Mul)}, 32)...), tck.Drop,
		tck.LocalGet(1), tck.I32Const(32), tck.I32Add, tck.LocalTee(1), tck.I32Const(times), tck.I32LtU, tck.BranchIf(0),
		tck.End)
	return tg.build(i32Only, body, tg.ok())
}

// TestTicksComeMoreOftenWithALargeMemory, in which a read may have to wait for the
// memory itself each time.
func TestTicksComeMoreOftenWithALargeMemory(t *testing.T) {
	const reads = 1 << 20
	small, _ := countTicks(t, reading(0, reads))
	large, _ := countTicks(t, reading(256, reads))
	t.Logf("%d and %d ticks", small, large)
	// 5 ms for reads of 200 ns each, which may be at the end of a page.
	if perSlice := reads / small; perSlice > 25_000 {
		t.Errorf("%d reads in a slice with a small memory", perSlice)
	}
	if perSlice := reads / large; perSlice > 5_000 {
		t.Errorf("%d reads in a slice with a large memory", perSlice)
	}
}

// TestPagesArePaidWhereMemoryGrows: the kernel makes them then, and the guest has a
// tick for each 100 us or so.
func TestPagesArePaidWhereMemoryGrows(t *testing.T) {
	none, without := countTicks(t, reading(0, 32))
	ticks, with := countTicks(t, reading(512, 32))
	const pages = 512 * 16 // of 4 KiB
	if more := with.Usage.Fuel - without.Usage.Fuel; more < 100*pages {
		t.Errorf("%d pages cost %d", pages, more)
	}
	if ticks-none < pages/200 {
		t.Errorf("%d ticks for %d pages", ticks-none, pages)
	}
}

// TestLargeRepliesAreReadInParts, each of which the guest pays before the next.
func TestLargeRepliesAreReadInParts(t *testing.T) {
	const size = 8 << 20
	tg := newTestGuest("reads")
	get := tg.get()
	read := tg.Import(abi.ImportModule, abi.ImportInput, ptrLen, noTypes)
	file := tg.build(nil,
		tck.I32Const(256), tck.MemoryGrow, tck.Drop, getCall(get), tck.Drop,
		tck.I32Const(scratch), tck.I32Const(size), tck.Call(read), tg.ok())
	g := load(t, newSandbox(t, Config{}), Plugin{Name: "reads", Wasm: file})
	ticksOf := func(reply int) (ticks int) {
		onSlice = func(begins bool) {
			if !begins {
				ticks++
			}
		}
		defer func() { onSlice = nil }()
		_, _ = g.Reconcile(t.Context(), Call{Now: callTime, Host: replying(reply)})
		return ticks
	}
	if more := ticksOf(size) - ticksOf(0); more < 8 {
		t.Errorf("%d ticks for 8 MiB", more)
	}
}

// replying is a host whose replies have that many bytes.
type replying int

func (r replying) Get(context.Context, ReadCall) (Reply, int64) {
	return Bytes(make([]byte, r)), 0
}
func (r replying) List(ctx context.Context, c ReadCall) (Reply, int64) { return r.Get(ctx, c) }
func (r replying) Import(ctx context.Context, _ string, c ReadCall) (Reply, int64) {
	return r.Get(ctx, c)
}
func (replying) Log(int32, []byte) {}
