package main

import (
	"context"
	"fmt"

	"smartdrive/client"
)

// named is a thing on the server, and the argument that named it.
type named struct {
	arg  string
	node client.Node
}

// find looks for the things that several arguments name. Those that are not found are told of; lost
// says how many. One argument alone is not many: its error is the command's.
func (c *cli) find(ctx context.Context, args []string, look func(arg string) (client.Node, error)) (found []named, lost int, err error) {
	err = c.each(ctx, args, func(arg string) error {
		n, err := look(arg)
		if err == nil {
			found = append(found, named{arg, n})
		}
		return err
	})
	if ctx.Err() != nil || client.IsCode(err, client.CodeUnauthenticated) || len(found) == 0 {
		return nil, 0, err
	}
	return found, len(args) - len(found), nil
}

// many does the same to many things by operations of the server, which go on if this process does
// not, and tells what became of each.
func (c *cli) many(ctx context.Context, api *client.Client, what client.NewOperation, all []named, lost int, tell func(named) error) error {
	failed, of := lost, lost+len(all)
	for len(all) > 0 {
		some := all[:min(len(all), client.MaxOperationItems)]
		all = all[len(some):]
		refused, err := c.operate(ctx, api, what, some)
		if err != nil {
			return err
		}
		for _, it := range some {
			if err, is := refused[it.node.ID]; is {
				failed++
				c.itemFailed(it.arg, err)
			} else if err := tell(it); err != nil {
				return err
			}
		}
	}
	return someFailed(failed, of)
}

// operate runs one operation to its end and returns what was refused, by id.
func (c *cli) operate(ctx context.Context, api *client.Client, what client.NewOperation, items []named) (map[string]error, error) {
	what.Nodes = make([]string, len(items))
	for i, it := range items {
		what.Nodes[i] = it.node.ID
	}
	op, err := api.StartOperation(ctx, what)
	if err == nil {
		op, err = api.WaitOperation(ctx, op, nil)
	}
	if err != nil {
		return nil, err
	}
	if op.State == "cancelled" {
		return nil, fmt.Errorf("somebody has cancelled it after %d of %d", op.Done, op.Total)
	}
	refused := map[string]error{}
	if op.Failed == 0 {
		return refused, nil
	}
	for f, err := range api.OperationFailures(ctx, op.ID) {
		if err != nil {
			return nil, err
		}
		refused[f.ID] = &client.Problem{Code: f.Code, Title: f.Title}
	}
	return refused, nil
}
