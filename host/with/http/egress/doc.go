// Package egress sends the HTTP requests of plugins, as far as their policies allow.
//
// A request is sent if the manifest of the controller declares its host and method, an entry
// of the policy ([Entry]) allows them, and the address that is dialled is public or one of
// the entry's. Each redirect is checked like a new request.
//
//	entry.go     entries of a policy, as they are written
//	check.go     what is wrong with an entry
//	pattern.go   the hosts that an entry or a manifest names
//	cover.go     whether entries bound others, and what a manifest lacks
//	text.go      entries as YAML
//	entryfor.go  the entry of a URL to which the host itself sends requests
//	target.go    from the text of a URL to the host that is checked, dialled and named to the server
//	address.go   which addresses are public
//	addresses.go the addresses that an entry allows
//	rule.go      which entry a request is sent by
//	header.go    the headers that a plugin may send, and those that it gets
//	redirect.go  the request that a redirect leads to
//	credential.go the credential in a Secret
//	leak.go      whether an answer contains a credential
//	secrets.go   Secrets, kept for a minute
//	withheld.go  the credentials that no answer may have
//	reader.go    reads Secrets as the service account of the plugin
//	circuit.go   hosts whose last requests have failed
//	dial.go      connections: the address is checked when it is dialled
//	proxy.go     connections to and through a proxy
//	transport.go the transports of an entry
//	failure.go   why there is no answer
//	state.go     what the revisions of a plugin share
//	client.go    the client of a revision, and its limits
//	send.go      one request with its redirects
//
// RATIONALE.md has the reasons.
package egress
