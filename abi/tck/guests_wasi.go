package tck

// Error numbers and constants of the system interface.
const (
	errnoSuccess  = 0
	errnoBadFile  = 8
	errnoFault    = 21
	clockRealtime = 0
	clockMono     = 1
	sleepNanos    = 3_600_000_000_000 // an hour, which no test waits for
)

// Where the guest keeps what the system interface answers.
const (
	firstWord  = scratch
	secondWord = scratch + 8
	earlier    = scratch + 16
	later      = scratch + 24
	subscribed = scratch + 64
	happened   = scratch + 128
)

// systemInterface traps when the host's system interface deviates.
func systemInterface() []byte {
	g := newGuest("wasi")
	sizes := []Type{I32, I32}
	args := g.Import(wasi, "args_sizes_get", sizes, i32Only)
	environ := g.Import(wasi, "environ_sizes_get", sizes, i32Only)
	prestat := g.Import(wasi, "fd_prestat_get", sizes, i32Only)
	write := g.Import(wasi, "fd_write", []Type{I32, I32, I32, I32}, i32Only)
	clock := g.Import(wasi, "clock_time_get", []Type{I32, I64, I32}, i32Only)
	poll := g.Import(wasi, "poll_oneoff", []Type{I32, I32, I32, I32}, i32Only)
	return g.finish(nil,
		emptyList(args), emptyList(environ),
		answers(errnoBadFile, I32Const(3), I32Const(firstWord), Call(prestat)),
		answers(errnoBadFile, I32Const(9), I32Const(firstWord), I32Const(0), I32Const(secondWord), Call(write)),
		answers(errnoSuccess, I32Const(clockRealtime), I64Const(1), I32Const(earlier), Call(clock)),
		hourOfSleep(), answers(errnoSuccess,
			I32Const(subscribed), I32Const(happened), I32Const(1), I32Const(firstWord), Call(poll)),
		trapIf(I32Const(firstWord), I32Load, I32Const(1), I32Ne),
		answers(errnoSuccess, I32Const(clockRealtime), I64Const(1), I32Const(later), Call(clock)),
		trapIf(I32Const(later), I64Load, I32Const(earlier), I64Load, I64Const(sleepNanos), I64Add, I64LtU),
		g.ok(),
	)
}

// emptyList checks that a list of strings is there and has no entry.
func emptyList(sizes Func) []byte {
	return join(
		I32Const(firstWord), I32Const(-1), I32Store,
		answers(errnoSuccess, I32Const(firstWord), I32Const(secondWord), Call(sizes)),
		trapIf(I32Const(firstWord), I32Load),
	)
}

// answers checks the error number that the instructions leave.
func answers(errno int32, instructions ...[]byte) []byte {
	return trapIf(join(instructions...), I32Const(errno), I32Ne)
}

// hourOfSleep writes a subscription to the monotonic clock, relative:
// userdata u64, tag u8, clock u32 at 16, timeout u64 at 24, precision u64,
// flags u16.
func hourOfSleep() []byte {
	return join(
		I32Const(subscribed), I64Const(7), I64Store,
		I32Const(subscribed+8), I64Const(0), I64Store,
		I32Const(subscribed+16), I64Const(clockMono), I64Store,
		I32Const(subscribed+24), I64Const(sleepNanos), I64Store,
		I32Const(subscribed+32), I64Const(0), I64Store,
		I32Const(subscribed+40), I64Const(0), I64Store,
	)
}
