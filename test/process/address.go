package process

import (
	"fmt"
	"testing"

	"example.org/smartdrive/test/services"
)

// Address returns a loopback address for a server that restarts. No other test of this kind gets
// the same address while this process lives.
func Address(t testing.TB) string {
	t.Helper()
	port, err := services.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint("127.0.0.1:", port)
}
