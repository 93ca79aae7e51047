package effect

// unheldWhileDeleting reports whether the primary is being deleted, and nothing but others hold
// it. What it came to own would be deleted with it or, if its dependents are deleted first,
// keep that from ending. A cleanup ends by itself, and may need objects of its own.
func (s *session) unheldWhileDeleting() bool {
	return s.target.Controller.WhileDeleting && s.target.Object.Deleting() && !s.target.Gone && !s.HasFinalizer(s.target)
}
