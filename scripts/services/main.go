// Command services starts and stops the services that tests run against; see package test/services.
//
//	go run ./scripts/services up       start the services that are down, and write .services/env
//	go run ./scripts/services down     stop the services and delete their data
//	go run ./scripts/services status   list the services
//	go run ./scripts/services env      print the addresses for a shell: eval "$(go run ./scripts/services env)"
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"example.org/smartdrive/test/services"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "services:", err)
		os.Exit(1)
	}
}

// limit bounds the whole command, downloads included.
const limit = 10 * time.Minute

func run(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New("what shall be done? up, down, status or env")
	}
	root, err := services.Checkout()
	if err != nil {
		return err
	}
	dir := filepath.Join(root, ".services")
	say := func(what string) { fmt.Fprintln(os.Stderr, "services:", what) }
	set := &services.Shared{Dir: dir, Tools: services.Open(root, say)}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	switch args[0] {
	case "up":
		return up(ctx, set)
	case "down":
		return set.Down(ctx)
	case "status":
		return status(set)
	case "env":
		return env(set)
	default:
		return fmt.Errorf("%q is none of up, down, status, env", args[0])
	}
}

func up(ctx context.Context, set *services.Shared) error {
	states, err := set.Up(ctx)
	for _, s := range states {
		if s.Err != nil {
			fmt.Println("MISSING", s.Missing())
			continue
		}
		fmt.Printf("%-14s %s (%s)\n", s.Name, s.URL, s.Note)
	}
	return err
}

func status(set *services.Shared) error {
	all, err := set.Processes()
	for _, p := range all {
		state := "down"
		if p.PID != 0 {
			state = fmt.Sprintf("up, process %d", p.PID)
		}
		fmt.Printf("%-16s %s\n", p.Name, state)
	}
	return err
}

func env(set *services.Shared) error {
	text, err := os.ReadFile(set.EnvFile())
	if err != nil {
		return fmt.Errorf("nothing was started yet: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		fmt.Print("export ", line)
	}
	return nil
}
