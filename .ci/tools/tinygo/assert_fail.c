// Debian builds wasi-libc with assertions, and a failed assertion prints. Linked
// first, this keeps printf, and the WASI imports that come with it, out of
// every plugin; an official TinyGo builds the library without assertions.
_Noreturn void __assert_fail(const char *expr, const char *file, int line, const char *func) {
	__builtin_trap();
}
