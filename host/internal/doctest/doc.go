// Package doctest keeps the documents true. It runs the commands of README.md and
// docs/tutorial.md as a reader would, generates the tables of docs/reference and what
// `go doc` shows of aliases in the SDK from the code, and checks links, paths, test names and
// commands in every document.
//
//	document_test.go   what a document says: its steps
//	reader_test.go     somebody who follows them
//	follow_test.go     the documents that are followed
//	reference_test.go  the generated parts of docs/reference; reference_*_test.go
//	                   what they are generated from
//	aliases_test.go    the comments of aliases in the SDK
//	promises_test.go   the tests that the tables of promises name
//	links_test.go      what documents refer to
//
// # Documents that are followed
//
// Every fenced block of such a document is a step, in the order of the text.
//
//   - A block of sh is run by bash; every command must succeed. Variables and the
//     working directory are kept for later blocks.
//   - A block of text is expected output of the commands before it. Each of its
//     lines must be among the lines of the output, in any order, with two
//     differences: times, durations, sizes, digests, addresses and temporary paths
//     may have other values, and … stands for any text.
//   - A block of diff changes the file that the line before it names in
//     `backticks` at its end, before a colon. The lines without + must be in the
//     file once.
//   - Any other block is the content of a file that is named in the same way.
//
// Comments, which are not shown to readers, change what a block means:
//
//	<!-- doctest: terminal NAME -->   before sh: in a terminal of its own, which
//	                                  stays open; before text: output of that terminal
//	                                  since the last step that did something
//	<!-- doctest: fails -->           before sh: the last command must fail
//	<!-- doctest: skip WHY -->        nothing is done
//	<!-- doctest: interrupt NAME -->  between blocks: Ctrl-C in that terminal, whose
//	                                  command must end with exit code 0
package doctest
