// Package browsertest tests the status page, host/with/page, in a real browser: Chromium, without a window, on a
// host with real plugins and a real control plane. It is a module of its own, since what drives the browser
// brings much with it.
//
// With THOLE_SCREENSHOTS=DIR the tests leave pictures of the pages there, for people who change them:
//
//	THOLE_SCREENSHOTS=/tmp/shots go test -count 1 -run /LookRight .
package browsertest
