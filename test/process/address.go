package process

import (
	"fmt"
	"testing"

	"smartdrive/test/services"
)

// Address is an address for a server that goes away and comes back: nobody else of these tests gets
// it as long as this process lives.
func Address(t testing.TB) string {
	t.Helper()
	port, err := services.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint("127.0.0.1:", port)
}
