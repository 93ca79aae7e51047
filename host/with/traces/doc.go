// Package traces is the capability by which each run is a span of OpenTelemetry, with one for each of its HTTP
// requests.
//
//	capability.go the declaration
//	settings.go   its section in the file of --config
//	spans.go      what is a span: events become spans when what they report has ended
//	export.go     how spans are sent
//
// The span of a run ends after those of its requests, and is made after them. They name it all the same, since
// its id, and that of the trace, are functions of the run.
package traces
