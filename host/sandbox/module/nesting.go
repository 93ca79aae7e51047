package module

// nesting follows the blocks of one function: what compiles fuel in relies on
// each end and else having its beginning, before the engine has looked at it.
type nesting struct {
	open  []Opcode // the function itself first
	ended bool
}

func (n *nesting) begin() { n.open, n.ended = append(n.open[:0], OpBlock), false }

// take says what is wrong with an instruction at this place, "" if nothing.
func (n *nesting) take(op Opcode) (wrong string) {
	last := len(n.open) - 1
	switch {
	case n.ended:
		return "instructions behind the function's end"
	case op == OpBlock, op == OpLoop, op == OpIf:
		n.open = append(n.open, op)
	case op == OpElse && n.open[last] != OpIf:
		return "an else without an if"
	case op == OpElse:
		n.open[last] = OpElse
	case op == OpEnd:
		n.open = n.open[:last]
		n.ended = last == 0
	}
	return ""
}
