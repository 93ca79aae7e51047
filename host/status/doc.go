// Package status is what operators see of a running host: the entries of /plugins, and the status page at
// /ui.
//
// The page shows numbers that others keep: states of plugins, metrics of controllers, and the latest runs of
// objects. All of them are collected when somebody asks for a page, and at most once in [Validity]. The
// package itself remembers what was loaded (history.go), and the counters of the last minute, for rates
// (rates.go).
//
// Whatever a plugin or an object can name is text for html/template, and one line. The page needs no scripts;
// the one that it has gets the page again and replaces what has changed.
package status
