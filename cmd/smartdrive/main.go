// Command smartdrive is the server and its client in one binary; see root.go for the commands.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// main runs the command line and exits with its code. A first interrupt or SIGTERM cancels the
// command, a second one kills the process.
func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	code := run(ctx, os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr})
	stop()
	os.Exit(code)
}

// streams are the standard streams of a command: results go to out, everything else to err.
type streams struct {
	in  io.Reader
	out io.Writer
	err io.Writer
}
