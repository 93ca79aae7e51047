// Package devtest tests `thole dev` as somebody at a terminal sees it: with the
// real compiler, a real control plane and a pseudo-terminal.
package devtest
