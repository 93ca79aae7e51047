package tck

import (
	"os"
	"strings"
	"testing"
)

func TestAdoptionRulesAreThoseOfTheSpecification(t *testing.T) {
	spec, err := os.ReadFile("../spec/writes.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(spec), "\n\n"+adoptionTable+"\n") {
		t.Errorf("writes.md does not have the table\n%s", adoptionTable)
	}
	if n := len(AdoptionRules()); n != 14*6 {
		t.Errorf("there are %d rules", n)
	}
}
