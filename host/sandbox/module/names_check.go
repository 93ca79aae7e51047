package module

import "errors"

const localNamesID = 2

// checkNames refuses a name section that claims more names than it has bytes
// for. What else may be wrong with one is no reason to refuse a module.
func checkNames(r *reader) {
	for r.left() > 0 && r.err == nil {
		id := r.byte()
		names := reader{data: r.bytes(r.u32())}
		switch id {
		case functionNamesID:
			names.count("names of functions", 2, MaxFunctions)
		case localNamesID:
			skipLocalNames(&names)
		}
		if names.err != nil && !errors.Is(names.err, errTruncated) {
			r.fail(names.err)
		}
	}
	if errors.Is(r.err, errTruncated) {
		r.err = nil
	}
}

func skipLocalNames(r *reader) {
	for range r.count("functions with named locals", 2, MaxFunctions) {
		r.u32()
		for range r.count("names of locals", 2, MaxLocals) {
			r.u32()
			r.bytes(r.u32())
		}
	}
}
