// Package access asks the API server what a service account may do, and who sends requests to the
// host.
//
// Plugins read from informers that they share, with the rights of the host. So what a
// plugin may read is decided here: by a SubjectAccessReview for its account, with the
// groups that the account has. Writes are sent as the account, and the API server decides.
// RATIONALE.md has the reasons.
//
//	account.go   whether the account is there, and the host may act as it
//	reviewer.go  questions about accounts, and about the host itself
//	subject.go   the answers about one of them: how they are got, and for how long they are
//	             remembered
//	tokens.go    who sends a request: TokenReviews
//	viewers.go   who may get metrics, states and other paths, also in an outage
//	caller.go    whether who sends it may make an object run by an event, or get a path
//	mayuse.go    whether an account may use a verb on an object: by a right to all, to those of
//	             the namespace, or to this one
package access
