package main

import (
	"os"
	"testing"

	"github.com/thole-dev/thole/cmd/internal/commandtest"
)

func TestRBACExitCodes(t *testing.T) {
	inDirectoryOfGuests(t)
	commandtest.ExpectExitCodes(t, rootCommand, map[string]int{
		"rbac --help": 0,
		"rbac echo.wasm --service-account team/robot":                             0,
		"rbac echo.wasm --service-account team/robot --constrained-impersonation": 0,
		"rbac unknown-import.wasm --service-account team/robot":                   1,
		"rbac missing.wasm --service-account team/robot":                          1,
		"rbac . --service-account team/robot":                                     1,
		"rbac echo.wasm --service-account team/robot --kubeconfig none":           1,
		"rbac":           2,
		"rbac echo.wasm": 2,
		"rbac echo.wasm unknown-import.wasm --service-account team/robot":           2,
		"rbac echo.wasm --service-account robot":                                    2,
		"rbac echo.wasm --service-account team/robot --host-service-account thole":  2,
		"rbac echo.wasm --service-account team/robot --config none.yaml":            2,
		"rbac echo.wasm --service-account team/robot --constrained-impersonation=x": 2,
	})
	if err := os.Mkdir("echo.yaml", 0o700); err != nil {
		t.Fatal(err)
	}
	commandtest.ExpectExitCodes(t, rootCommand, map[string]int{"rbac echo.wasm --service-account team/robot": 1})
}
