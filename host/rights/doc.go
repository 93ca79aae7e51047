// Package rights decides what the policy of a plugin lets it do.
//
// A plugin has what needs no entry, and what the entries of its policy allow
// ([Entries]). Without an entry it follows, patches and writes the status of a
// namespaced custom kind as the primary, and reaches in the namespace of the primary the
// namespaced kinds of owns, reads and watches, other than sensitive ones: see
// [abi.Kind.Sensitive]. Kinds of writes always need an entry.
//
// may.go has who says no when a plugin uses a verb on an object, in order, and where each is asked.
//
// # Files
//
//	account.go  the service account that a plugin acts as
//	entries.go  entries of a policy
//	may.go      where they, and what needs no entry, allow a verb, and whether others bound them
//	needs.go    what a manifest needs, and what of it is missing
//	grants.go   the verbs that the host uses for a manifest, and who needs each
//	rules.go    the rules of RBAC for them
//	text.go     entries as text that can be pasted into a policy
package rights
