// Package http is the capability by which plugins send HTTP requests to other systems (abi/http/SPEC.md).
//
//	capability.go the declaration, and the requests of each plugin
//	settings.go   the http of a policy, and of allow in the configuration, which bounds it
//	metrics.go    the series of requests
//	egress        the client: which requests a policy allows, and how they are sent
//
// CloudEvents are sent by the same client, and their sinks are bounded by the same hosts: see [HostProblems].
package http
