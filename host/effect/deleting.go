package effect

// unheldWhileDeleting reports whether the primary is being deleted, and nothing but others hold
// it. What it came to own would be deleted with it or, if its dependents are deleted first,
// keep that from ending. A cleanup ends by itself, and may need objects of its own.
func (p *plan) unheldWhileDeleting() bool {
	return p.target.Controller.WhileDeleting && p.target.Object.Deleting() && !p.target.Gone && !p.HasFinalizer(p.target)
}
