//go:build linux

package bench

import (
	"os"
	"testing"

	"example.org/smartdrive/test/process"
)

// bareDir is the environment variable that starts this binary as the bare server; it names the
// directory to serve.
const bareDir = "SMARTDRIVE_BENCH_BARE"

func TestMain(m *testing.M) {
	if dir := os.Getenv(bareDir); dir != "" {
		serveBare(dir)
		return
	}
	process.Main(m)
}
