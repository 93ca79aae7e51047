// Package status is what operators see of the plugins of a running host: the entries of /plugins.
package status
