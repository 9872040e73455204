//go:build linux

package bench

import (
	"os"
	"testing"

	"smartdrive/test/process"
)

// bareDir names the directory that this binary serves when it is started again as the bare server.
const bareDir = "SMARTDRIVE_BENCH_BARE"

func TestMain(m *testing.M) {
	if dir := os.Getenv(bareDir); dir != "" {
		serveBare(dir)
		return
	}
	process.Main(m)
}
