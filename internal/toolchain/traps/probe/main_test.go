package main

import "testing"

func TestGoComesThroughEachTrap(t *testing.T) {
	if !newOfValue() {
		t.Error("new-of-value")
	}
}
