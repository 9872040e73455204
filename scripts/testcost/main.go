// Command testcost runs a test binary for "go test -exec" and then prints the processor time of the
// test and of the processes that it waited for. Processor time depends little on the machine's
// load.
//
//	go test -exec .tools/testcost ./...
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "testcost: which program?")
		os.Exit(2)
	}
	os.Exit(run(exec.Command(os.Args[1], os.Args[2:]...))) //nolint:gosec,noctx // running it is the purpose
}

func run(cmd *exec.Cmd) int {
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	signals := make(chan os.Signal, 1)
	// "go test" sends SIGQUIT to a test that times out, so that it prints its goroutines.
	signal.Notify(signals, os.Interrupt, syscall.SIGQUIT, syscall.SIGTERM)
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "testcost:", err)
		return 2
	}
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s) // the process may have ended
		}
	}()
	err := cmd.Wait()
	state := cmd.ProcessState
	fmt.Printf("cost: %.2f s of CPU\n", (state.UserTime() + state.SystemTime()).Seconds())
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return max(exit.ExitCode(), 1) // -1 for a signal
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testcost:", err)
		return 2
	}
	return 0
}
