// Package pluginlist asks a running host for its plugins and prints them: the
// logic of `thole plugins`.
package pluginlist
