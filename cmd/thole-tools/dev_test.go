package main

import (
	"testing"

	"github.com/thole-dev/thole/cmd/internal/commandtest"
)

func TestDevExitCodes(t *testing.T) {
	t.Chdir(t.TempDir())
	commandtest.ExpectExitCodes(t, rootCommand, map[string]int{
		"dev --help":                     0,
		"dev":                            1, // no module here
		"dev missing":                    1,
		"dev a b":                        2,
		"dev --nonsense":                 2,
		"dev --apply":                    2,
		"dev --kubeconfig k --data d":    2,
		"dev --config none.yaml":         2,
		"dev --log-file missing/log.txt": 1,
	})
}
