// Package source is where plugins come from. Today that is a directory: it
// yields a [Snapshot] of every plugin in it whenever that changes.
//
// The directory is watched as a whole and no single notification is trusted:
// any of them means a full rescan after a short quiet time, and a periodic
// scan finds what a file system without notifications has not told. What
// counts is the content: a file that was touched or moved in place yields
// nothing new.
package source
