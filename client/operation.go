package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// OperationKind is what is done to many items.
type OperationKind string

// The kinds of operations that can be asked for. Subtree is work on what is below one node, which
// other calls begin.
const (
	OperationTrash   OperationKind = "trash"
	OperationRestore OperationKind = "restore"
	OperationDelete  OperationKind = "delete"
	OperationMove    OperationKind = "move"
	OperationCopy    OperationKind = "copy"
	OperationUnshare OperationKind = "unshare"
	OperationSubtree OperationKind = "subtree"
)

// MaxOperationItems is how many items one operation has at most.
const MaxOperationItems = 100_000

// Operation is work over many nodes that goes on by itself. ID is empty where the work was done at
// once.
type Operation struct {
	ID     string        `json:"id"`
	Kind   OperationKind `json:"kind"`
	State  string        `json:"state"`  // running, done, cancelled; of a subtree failed, too
	Done   int64         `json:"done"`   // items dealt with, failures included; of a subtree nodes
	Failed int64         `json:"failed"` // items that were refused: see OperationFailures
	Total  int64         `json:"total"`
	Error  Code          `json:"error"` // when a subtree failed

	Parent    *string   `json:"parent"`   // the folder that things go to
	Undoable  bool      `json:"undoable"` // UndoOperation would do something
	Undoes    *string   `json:"undoes"`   // what it undoes
	UndoneBy  *string   `json:"undone_by"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// NewOperation says what is to be done to which items: Nodes (of an unshare Shares), or All with
// Except.
type NewOperation struct {
	Kind     OperationKind `json:"kind"`
	Nodes    []string      `json:"nodes,omitempty"`
	Shares   []string      `json:"shares,omitempty"`
	All      *AllItems     `json:"all,omitempty"`
	Except   []string      `json:"except,omitempty"`
	Parent   string        `json:"parent,omitempty"`   // of move and copy; of restore: empty is where each was
	Conflict Conflict      `json:"conflict,omitempty"` // of move, copy and restore
}

// AllItems names items without listing them. One field is set.
type AllItems struct {
	Folder string `json:"folder,omitempty"` // id: what is in it
	Trash  bool   `json:"trash,omitempty"`
	Shares bool   `json:"shares,omitempty"`
}

// StartOperation makes an operation. What is wrong with single items is not an error: it counts as
// Failed.
func (c *Client) StartOperation(ctx context.Context, in NewOperation) (Operation, error) {
	return fetch[Operation](ctx, c, &call{method: http.MethodPost, path: "/operations", in: in, key: true})
}

// Operation returns how far an operation is.
func (c *Client) Operation(ctx context.Context, id string) (Operation, error) {
	return fetch[Operation](ctx, c, &call{method: http.MethodGet, path: operationPath(id, "")})
}

// AllOperations yields those that StartOperation and UndoOperation have made, the newest first. An
// error is the last thing it yields.
func (c *Client) AllOperations(ctx context.Context) iter.Seq2[Operation, error] {
	return all(func(p Page) (List[Operation], error) {
		return fetch[List[Operation]](ctx, c, &call{method: http.MethodGet, path: "/operations", query: p.values()})
	})
}

// CancelOperation stops an operation. What is done stays done.
func (c *Client) CancelOperation(ctx context.Context, id string) (Operation, error) {
	return fetch[Operation](ctx, c, &call{method: http.MethodPost, path: operationPath(id, "/cancel"), key: true})
}

// RetryOperation tries again what failed, and what a cancelled operation has not come to.
func (c *Client) RetryOperation(ctx context.Context, id string) (Operation, error) {
	return fetch[Operation](ctx, c, &call{method: http.MethodPost, path: operationPath(id, "/retry"), key: true})
}

// UndoOperation makes the operation that takes back what another one has changed.
func (c *Client) UndoOperation(ctx context.Context, id string) (Operation, error) {
	return fetch[Operation](ctx, c, &call{method: http.MethodPost, path: operationPath(id, "/undo"), key: true})
}

// OperationFailure is an item that was refused.
type OperationFailure struct {
	ID    string   `json:"id"`
	Name  string   `json:"name"` // empty: there is no such node any more
	Path  string   `json:"path"`
	Type  NodeType `json:"type"`
	Code  Code     `json:"code"`
	Title string   `json:"title"` // for people
}

// OperationFailures yields the items that were refused. An error is the last thing it yields.
func (c *Client) OperationFailures(ctx context.Context, id string) iter.Seq2[OperationFailure, error] {
	return all(func(p Page) (List[OperationFailure], error) {
		return fetch[List[OperationFailure]](ctx, c, &call{method: http.MethodGet, path: operationPath(id, "/failures"), query: p.values()})
	})
}

// WaitOperation waits for the end of an operation and returns how it ended. progress is told how
// far it is each time that is asked for; nil: nobody is told.
func (c *Client) WaitOperation(ctx context.Context, op Operation, progress func(Operation)) (Operation, error) {
	for pause := c.opt.Pause; ; pause = min(2*pause, c.opt.MaxPause) {
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

func operationPath(id, what string) string { return "/operations/" + url.PathEscape(id) + what }
