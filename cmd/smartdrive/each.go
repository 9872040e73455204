package main

import (
	"context"
	"fmt"
	"iter"

	"github.com/spf13/cobra"

	"smartdrive/client"
)

// calls makes the run of a command that asks the server.
func (c *cli) calls(do func(ctx context.Context, api *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		api, err := c.connect()
		if err != nil {
			return err
		}
		return do(cmd.Context(), api, args)
	}
}

// showAll shows a list as it comes.
func showAll[Item any](items iter.Seq2[Item, error], show func(Item) error) error {
	for item, err := range items {
		if err != nil {
			return err
		}
		if err := show(item); err != nil {
			return err
		}
	}
	return nil
}

// each does the same for several arguments. One failure alone is the command's; of several
// arguments the others go on, and the command ends with exitSome.
func (c *cli) each(ctx context.Context, args []string, do func(arg string) error) error {
	failed := 0
	for _, arg := range args {
		err := do(arg)
		if err == nil {
			continue
		}
		if len(args) == 1 || ctx.Err() != nil || client.IsCode(err, client.CodeUnauthenticated) {
			return err
		}
		failed++
		c.itemFailed(arg, err)
	}
	return someFailed(failed, len(args))
}

// someFailed is the error of a command of which some items failed.
func someFailed(failed, of int) error {
	if failed == 0 {
		return nil
	}
	return withCode(exitSome, fmt.Errorf("%d of %d failed", failed, of))
}

// itemFailed tells of one item that failed while others go on.
func (c *cli) itemFailed(name string, err error) {
	if c.json {
		_ = c.object(map[string]any{"path": name, "state": client.StateFailed, "error": newFailure(err, codeOf(context.Background(), err))})
	}
	c.say("smartdrive: %s: %v\n", name, err)
}
