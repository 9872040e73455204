package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"

	"example.org/smartdrive/api"
)

// The kinds of operations. StartOperation accepts all but Subtree, which the server starts for
// calls such as DeleteNode on a large folder.
const (
	OperationTrash   = api.OperationTrash
	OperationRestore = api.OperationRestore
	OperationDelete  = api.OperationDelete
	OperationMove    = api.OperationMove
	OperationCopy    = api.OperationCopy
	OperationUnshare = api.OperationUnshare
	OperationSubtree = api.OperationSubtree
)

// MaxOperationItems is the maximum number of items of one operation.
const MaxOperationItems = 100_000

// NewOperation describes an operation for StartOperation. The items are Nodes (for unshare:
// Shares), or All without Except.
type NewOperation struct {
	Kind     OperationKind `json:"kind"`
	Nodes    []string      `json:"nodes,omitempty"`
	Shares   []string      `json:"shares,omitempty"`
	All      *AllItems     `json:"all,omitempty"`
	Except   []string      `json:"except,omitempty"`
	Parent   string        `json:"parent,omitempty"`   // for move and copy; for restore, empty means the original folder of each item
	Conflict Conflict      `json:"conflict,omitempty"` // for move, copy and restore
}

// AllItems selects items without listing them. Exactly one field is set.
type AllItems struct {
	Folder string `json:"folder,omitempty"` // id of a folder: its contents
	Trash  bool   `json:"trash,omitempty"`
	Shares bool   `json:"shares,omitempty"`
}

// StartOperation starts an operation. Errors of single items do not fail the call; they are counted
// in Failed.
func (c *Client) StartOperation(ctx context.Context, in NewOperation) (Operation, error) {
	return fetch[Operation](ctx, c, &request{method: http.MethodPost, path: "/operations", input: in, withKey: true})
}

// Operation returns the current state of an operation. It fails with CodeNotFound, also 7 days
// after its end.
func (c *Client) Operation(ctx context.Context, id string) (Operation, error) {
	return fetch[Operation](ctx, c, &request{method: http.MethodGet, path: operationPath(id, "")})
}

// AllOperations yields the operations created by StartOperation and UndoOperation, newest first. It
// yields the error of a failed request last.
func (c *Client) AllOperations(ctx context.Context) iter.Seq2[Operation, error] {
	return all(func(p Page) (List[Operation], error) {
		return fetch[List[Operation]](ctx, c, &request{method: http.MethodGet, path: "/operations", query: p.values()})
	})
}

// CancelOperation stops an operation and returns its state. Items already processed stay changed.
func (c *Client) CancelOperation(ctx context.Context, id string) (Operation, error) {
	return fetch[Operation](ctx, c, &request{method: http.MethodPost, path: operationPath(id, "/cancel"), withKey: true})
}

// RetryOperation retries the failed items of an operation, and the unprocessed items of a cancelled
// one.
func (c *Client) RetryOperation(ctx context.Context, id string) (Operation, error) {
	return fetch[Operation](ctx, c, &request{method: http.MethodPost, path: operationPath(id, "/retry"), withKey: true})
}

// UndoOperation starts and returns an operation that reverts the changes of another one.
func (c *Client) UndoOperation(ctx context.Context, id string) (Operation, error) {
	return fetch[Operation](ctx, c, &request{method: http.MethodPost, path: operationPath(id, "/undo"), withKey: true})
}

// OperationFailures yields the refused items of an operation. If a request fails, the last pair is
// a zero value and the error.
func (c *Client) OperationFailures(ctx context.Context, id string) iter.Seq2[OperationFailure, error] {
	return all(func(p Page) (List[OperationFailure], error) {
		return fetch[List[OperationFailure]](ctx, c, &request{method: http.MethodGet, path: operationPath(id, "/failures"), query: p.values()})
	})
}

// WaitOperation polls an operation until it ends and returns its final state. progress, if not nil,
// receives the state before each poll. The error is a *Problem if the operation failed, and the
// context's cause if ctx ends.
func (c *Client) WaitOperation(ctx context.Context, op Operation, progress func(Operation)) (Operation, error) {
	for pause := c.opt.MinBackoff; ; pause = min(2*pause, c.opt.MaxBackoff) {
		if progress != nil {
			progress(op)
		}
		switch op.State {
		case "failed":
			return op, &Problem{Code: op.Error, Title: "the operation failed on the server"}
		case "done", "cancelled":
			return op, nil
		}
		if err := sleep(ctx, pause); err != nil {
			return op, err
		}
		next, err := c.Operation(ctx, op.ID)
		if err != nil {
			return op, err
		}
		op = next
	}
}

// operationPath returns the path of an operation followed by what, such as "/cancel".
func operationPath(id, what string) string { return "/operations/" + url.PathEscape(id) + what }
