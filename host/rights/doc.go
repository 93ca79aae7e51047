// Package rights decides which verbs a plugin may use on which objects.
//
// A plugin has what needs no entry, and what the entries of its policy allow
// ([Entries]). Without an entry it follows, patches and writes the status of a
// namespaced custom kind as the primary, and reaches in the namespace of the primary the
// namespaced kinds of owns, reads and watches, other than [Sensitive] ones. Kinds of
// writes always need an entry.
//
//	account.go  the service account that a plugin acts as
//	entries.go  entries of a policy: what they allow, and whether others bound them
//	reach.go    the objects on which a verb may be used
//	defaults.go what a controller has, with and without entries
//	needs.go    what a manifest needs, and what of it is missing
//	grants.go   the verbs that the host uses for a manifest, and who needs each
//	rules.go    the rules of RBAC for them
//	secret.go the Secrets that a policy names
//	text.go     entries as text that can be pasted into a policy
package rights
