# shellcheck shell=bash
# Shared by the scripts of this folder: the repository's root, and which TinyGo
# to use. Meant to be sourced.

# me begins a message; a script may choose it.
me=${0##*/}
# shellcheck disable=SC2034 # for the scripts
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

# Older ones lack what the SDK needs: //go:wasmexport for reactors, Go 1.26.
tinygo_minimum=0.41

die() {
	printf '%s: %s\n' "$me" "$1" >&2
	exit 1
}

# at_least WANT GOT: dotted version GOT is WANT or newer.
at_least() {
	[ "$(printf '%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]
}

# tinygo_on_path prints the path of a tinygo on PATH that is new enough.
tinygo_on_path() {
	local found version
	found=$(type -P tinygo) || return 1
	version=$("$found" version 2>/dev/null | awk '{ print $3 }') || return 1
	[ -n "$version" ] && at_least "$tinygo_minimum" "$version" && printf '%s\n' "$found"
}
