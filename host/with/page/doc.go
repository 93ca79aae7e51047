// Package page is the capability by which operators see the plugins and objects of a running host in a browser,
// at /ui.
//
//	capability.go the declaration
//	page.go       the pages, and html.go their HTML
//	snapshot.go   everything that they show, at one time
//	numbers.go    metrics of controllers, and rates.go their counters of the last minute
//	history.go    what was loaded
//
// The page shows numbers that others keep: states of plugins, metrics of controllers, and the latest runs of
// objects. All of them are collected when somebody asks for a page, and at most once in [validity]. The
// package itself remembers what was loaded, and the counters of the last minute.
//
// Whatever a plugin or an object can name is escaped text, and one line. The page needs no scripts;
// the one that it has gets the page again and replaces what has changed.
package page
