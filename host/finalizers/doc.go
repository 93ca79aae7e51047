// Package finalizers finds the finalizers that plugins have left on objects,
// and takes them off when an administrator asks for it: the work of `thole
// finalizers`. The host itself never takes off a finalizer whose controller
// does not run, for what the clean-up would have done stays undone.
//
//	name.go     owners and kinds as people write them, and the command
//	kinds.go    which of the cluster's kinds are looked at
//	find.go     who carries the finalizers
//	release.go  taking them off, one by one
package finalizers
