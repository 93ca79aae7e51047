package main

import (
	"testing"

	"github.com/thole-dev/thole/cmd/internal/commandtest"
)

func TestMain(m *testing.M) { commandtest.Main(m, rootCommand) }

// TestScripts runs what people type, and shows what they get.
func TestScripts(t *testing.T) { commandtest.RunScripts(t, scriptCommands) }
