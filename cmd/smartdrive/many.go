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
	refused := map[string]error{}
	for _, it := range items {
		if place, _ := client.SplitPlace(it.arg); place == "" {
			what.Nodes = append(what.Nodes, it.node.ID)
		} else if err := one(ctx, api, what, it.node.ID); err != nil {
			refused[it.node.ID] = err
		}
	}
	if len(what.Nodes) == 0 {
		return refused, ctx.Err()
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

// one does to one thing what an operation does to many: operations are on one's own drive.
func one(ctx context.Context, api *client.Client, what client.NewOperation, id string) (err error) {
	switch what.Kind {
	case client.OperationTrash, client.OperationDelete:
		return api.DeleteNode(ctx, id, what.Kind == client.OperationDelete)
	case client.OperationMove:
		_, err = api.ChangeNode(ctx, id, client.Change{Parent: what.Parent, Conflict: what.Conflict})
	case client.OperationRestore:
		_, err = api.RestoreNode(ctx, id, what.Conflict)
	default:
		err = fmt.Errorf("%s works in one's own drive", what.Kind)
	}
	return err
}
