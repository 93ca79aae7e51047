// Package native makes native code of modules, keeps it, and brings it back.
//
// A [Store] compiles: in a process of its own if there is a program for it
// ([Compiler]), and into a cache on disk if there is a place for it, from which
// the same module comes back in milliseconds. A [Module] is the native code of
// one module, which instances are made from. A [Code] is a module that its
// users share, and that sleeps while there are none.
//
// What it is given was verified before: it compiles whatever the engine takes.
package native
