//go:build unix

package main

import (
	"os"
	"syscall"
)

// reloadSignals are the signals that make the server reload its configuration.
var reloadSignals = []os.Signal{syscall.SIGHUP}
