package main

import (
	"context"
	"fmt"
	"iter"

	"github.com/spf13/cobra"

	"example.org/smartdrive/client"
)

// withClient returns a cobra RunE that connects to the server and calls do with the client. If
// there is no server or token to connect with, the command fails and do is not called.
func (c *cli) withClient(do func(ctx context.Context, api *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		api, err := c.connect()
		if err != nil {
			return err
		}
		return do(cmd.Context(), api, args)
	}
}

// showAll calls show for each item and stops at the first error.
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

// each calls do for each argument. With one argument it returns its error. With several, a failure
// is printed and the others continue; the result is then exitPartial. It stops at once if the user
// is not logged in.
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

// someFailed returns nil if failed is 0, else an error with exitPartial.
func someFailed(failed, of int) error {
	if failed == 0 {
		return nil
	}
	return withCode(exitPartial, fmt.Errorf("%d of %d failed", failed, of))
}

// itemFailed prints the failure of one item to the error output, and with --json also as a result;
// the command continues.
func (c *cli) itemFailed(name string, err error) {
	if c.json {
		_ = c.writeJSON(map[string]any{"path": name, "state": client.StateFailed, "error": newErrorJSON(err, codeOf(context.Background(), err))})
	}
	c.printError("smartdrive: %s: %v\n", name, err)
}
