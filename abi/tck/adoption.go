package tck

import "strings"

// AdoptionRule is what a host does with an intent for an object: one cell of the table in
// abi/spec/writes.md, "Adoption and release".
type AdoptionRule struct {
	State   string // of the object
	Intent  string
	Outcome string // a verb in the past, "nothing", or the reason of a refusal in backticks
}

// AdoptionRules returns all of them. A host that has writes, such as a fake one for tests, puts an
// object into each state, performs the intent and compares what becomes of the object. A
// refused intent and one that leads to nothing leave the object as it is.
func AdoptionRules() (all []AdoptionRule) {
	lines := strings.Split(strings.TrimSpace(adoptionTable), "\n")
	intents := cells(lines[0])
	for _, line := range lines[2:] {
		row := cells(line)
		for i := 1; i < len(row); i++ {
			all = append(all, AdoptionRule{State: row[0], Intent: intents[i], Outcome: row[i]})
		}
	}
	return all
}

// cells returns the cells of a row of a table in Markdown.
func cells(line string) (all []string) {
	for cell := range strings.SplitSeq(strings.Trim(line, "| "), "|") {
		all = append(all, strings.TrimSpace(cell))
	}
	return all
}

// adoptionTable is that of abi/spec/writes.md.
const adoptionTable = "" +
	"| the object | apply | create | apply with `adopt` | `adopt` alone | release | delete |\n" +
	"|---|---|---|---|---|---|---|\n" +
	"| does not exist | created | created | created | `NotFound` | nothing | nothing |\n" +
	"| is controlled by the primary | applied | `AlreadyExists` | applied | nothing | released | deleted |\n" +
	"| is controlled by the primary, and is being deleted | applied | `AlreadyExists` | applied | nothing | released | nothing |\n" +
	"| is controlled by the primary, which is being deleted | applied | `AlreadyExists` | applied | nothing | released | deleted |\n" +
	"| is controlled by another object | `ControlledByAnother` | `AlreadyExists` | `ControlledByAnother` | `ControlledByAnother` | `ControlledByAnother` | `ControlledByAnother` |\n" +
	"| is controlled by another object, and refers to the primary as an owner | `ControlledByAnother` | `AlreadyExists` | `ControlledByAnother` | `ControlledByAnother` | `ControlledByAnother` | `ControlledByAnother` |\n" +
	"| has no controller | `NotAdopted` | `AlreadyExists` | adopted | adopted | nothing | `NotControlled` |\n" +
	"| has no controller, and refers to the primary as an owner | `NotAdopted` | `AlreadyExists` | adopted | adopted | released | `NotControlled` |\n" +
	"| has no controller, and has other owners | `NotAdopted` | `AlreadyExists` | adopted | adopted | nothing | `NotControlled` |\n" +
	"| has no controller, and is being deleted | `NotAdopted` | `AlreadyExists` | `BeingDeleted` | `BeingDeleted` | nothing | `NotControlled` |\n" +
	"| has no controller, and the primary is being deleted | `NotAdopted` | `AlreadyExists` | `BeingDeleted` | `BeingDeleted` | nothing | `NotControlled` |\n" +
	"| has no controller, and is not followed (`managed`) | `NotAdopted` | `AlreadyExists` | `NotAdopted` | `NotAdopted` | nothing | `NotControlled` |\n" +
	"| owns the primary | `NotAdopted` | `AlreadyExists` | `OutOfScope` | `OutOfScope` | nothing | `NotControlled` |\n" +
	"| is the primary | `OutOfScope` | `AlreadyExists` | `OutOfScope` | `OutOfScope` | `OutOfScope` | `NotControlled` |\n"
