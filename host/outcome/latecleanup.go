package outcome

// LateCleanup is what becomes of the cleanup of an object that the API server has deleted in
// spite of its finalizer (abi/spec/deletion.md, "Objects that vanish").
type LateCleanup string

// Any but the first one is a loss.
const (
	LateCleanupSucceeded LateCleanup = "success"
	LateCleanupStalled   LateCleanup = "stalled"
	LateCleanupTooLarge  LateCleanup = "too_large" // too many bytes of such objects wait
	LateCleanupReplaced  LateCleanup = "replaced"  // the next revision has no cleanup
	LateCleanupRestored  LateCleanup = "restored"  // the API server has gone back, or does not serve the kind
	LateCleanupStopped   LateCleanup = "stopped"   // the controller has ended, or the replica does not lead any more
)

// LateCleanups returns all values.
func LateCleanups() []LateCleanup {
	return []LateCleanup{
		LateCleanupSucceeded, LateCleanupStalled, LateCleanupTooLarge, LateCleanupReplaced, LateCleanupRestored, LateCleanupStopped,
	}
}

// Loss describes why a cleanup is lost.
func (l LateCleanup) Loss() string {
	switch l {
	case LateCleanupStalled:
		return "it has stalled"
	case LateCleanupTooLarge:
		return "too many bytes of such objects wait for their cleanup"
	case LateCleanupReplaced:
		return "the revision that runs now has no cleanup"
	case LateCleanupRestored:
		return "the API server has gone back to an earlier state or does not serve the kind, so that the object may exist again later"
	case LateCleanupStopped:
		return "the controller has ended, or the replica does not lead the plugin any more"
	case LateCleanupSucceeded:
	}
	return ""
}
