// Package wasi is the system interface of guests. It gives them nothing of the
// host: no arguments, no environment, no files, no sockets; a [Process] has the
// last bytes of what a guest prints, and time and randomness are the call's.
//
// Compilers' runtimes import it and rely on the exact answers: standard Go
// panics at start if the lists are not empty successes or if unknown
// descriptors are not EBADF.
package wasi
