package main

import (
	"context"
	"fmt"

	"example.org/smartdrive/client"
)

// namedNode is a node and the argument that named it.
type namedNode struct {
	arg  string
	node client.Node
}

// findNodes looks up the nodes that arguments name. lost counts the arguments that failed, which
// are printed. A single argument's error is returned instead.
func (c *cli) findNodes(ctx context.Context, args []string, look func(arg string) (client.Node, error)) (found []namedNode, lost int, err error) {
	err = c.each(ctx, args, func(arg string) error {
		n, err := look(arg)
		if err == nil {
			found = append(found, namedNode{arg, n})
		}
		return err
	})
	if ctx.Err() != nil || client.IsCode(err, client.CodeUnauthenticated) || len(found) == 0 {
		return nil, 0, err
	}
	return found, len(args) - len(found), nil
}

// applyToMany applies an operation to many nodes and reports each result: by tell on success,
// otherwise as a failed item. lost is added to the failures. The server finishes a running
// operation even if this process dies.
func (c *cli) applyToMany(ctx context.Context, api *client.Client, what client.NewOperation, all []namedNode, lost int, tell func(namedNode) error) error {
	failed, of := lost, lost+len(all)
	for len(all) > 0 {
		some := all[:min(len(all), client.MaxOperationItems)]
		all = all[len(some):]
		refused, err := c.runOperation(ctx, api, what, some)
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

// runOperation runs one operation to its end and returns the refused nodes, by id. Nodes outside
// the user's own drive are processed one by one.
func (c *cli) runOperation(ctx context.Context, api *client.Client, what client.NewOperation, items []namedNode) (map[string]error, error) {
	refused := map[string]error{}
	for _, it := range items {
		if place, _ := client.SplitPlace(it.arg); place == "" {
			what.Nodes = append(what.Nodes, it.node.ID)
		} else if err := applyToNode(ctx, api, what, it.node.ID); err != nil {
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

// applyToNode does to one node what an operation does to many. It is used outside the user's own
// drive, where operations do not work.
func applyToNode(ctx context.Context, api *client.Client, what client.NewOperation, id string) (err error) {
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
