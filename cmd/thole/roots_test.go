package main

import (
	"crypto/x509"
	"os"
	"os/exec"
	"testing"
)

// The image has no file with root certificates. This test starts itself where there is none.
func TestRootCertificatesAreInTheProgram(t *testing.T) {
	const helper = "THOLE_TEST_ROOTS"
	if os.Getenv(helper) != "" {
		pool, err := x509.SystemCertPool()
		if err != nil {
			t.Fatal(err)
		}
		if pool.Equal(x509.NewCertPool()) {
			t.Error("there are no root certificates")
		}
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), helper+"=1", "SSL_CERT_FILE=/nonexistent", "SSL_CERT_DIR=/nonexistent")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
