package main

import (
	"context"
	"fmt"

	"smartdrive/client"
)

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
