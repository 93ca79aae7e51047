// Package access asks the API server what a service account may do.
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
//	caller.go    whether who sends events to the host may make an object run
//	read.go      whether an account may read an object: by a right to all, to those of the
//	             namespace, or to this one
package access
