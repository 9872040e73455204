package api

// OperationKind is the kind of work that an operation does.
type OperationKind string

// The kinds of operations. A request may name all but Subtree, which the server starts for calls
// such as deleting a large folder.
const (
	OperationTrash   OperationKind = "trash"
	OperationRestore OperationKind = "restore"
	OperationDelete  OperationKind = "delete"
	OperationMove    OperationKind = "move"
	OperationCopy    OperationKind = "copy"
	OperationUnshare OperationKind = "unshare"
	OperationSubtree OperationKind = "subtree"
)

// Operation is background work on many nodes.
type Operation struct {
	ID        string        `json:"id" format:"uuid"` // empty if a client found the work done at once
	Kind      OperationKind `json:"kind" enum:"trash,restore,delete,move,copy,unshare,subtree" doc:"kind of operation; subtree: all nodes below one node"`
	State     string        `json:"state" enum:"running,done,cancelled,failed"`
	Done      int64         `json:"done" doc:"processed items, including failures"`
	Failed    int64         `json:"failed" doc:"items that were refused"`
	Total     int64         `json:"total" doc:"number of items; of a subtree the number of nodes, as far as known"`
	Error     Code          `json:"error"` // why a subtree operation failed
	Parent    *string       `json:"parent" doc:"id of the target folder; null: none"`
	Undoable  bool          `json:"undoable" doc:"true: the operation can be undone"`
	Undoes    *string       `json:"undoes" doc:"id of the operation that this one undoes; null: none"`
	UndoneBy  *string       `json:"undone_by" doc:"the operation that undoes it; null: none"`
	CreatedAt Time          `json:"created_at"`
	UpdatedAt Time          `json:"updated_at"`
}

// SubtreeOperation is the state of work on all nodes below one node, which goes on after the reply.
type SubtreeOperation struct {
	ID    string `json:"id" format:"uuid"`
	State string `json:"state"`
	Done  int64  `json:"done"`  // nodes processed
	Total int64  `json:"total"` // nodes known so far; at least Done
	Error Code   `json:"error"` // why the operation failed; of a running handover, why it waits
}

// OperationFailure is a refused item of an operation.
type OperationFailure struct {
	ID    string   `json:"id" format:"uuid" doc:"id of the node; for unshare of the share"`
	Name  string   `json:"name" doc:"name; empty: the file or folder does not exist any more"`
	Path  string   `json:"path" doc:"current or former path; empty if name is empty"`
	Type  NodeType `json:"type"`
	Code  Code     `json:"code"`
	Title string   `json:"title" doc:"description of the problem"`
}

// KeyConflict is a request that the server refused because its Idempotency-Key had been used for a
// different request.
type KeyConflict struct {
	ID      string `json:"id" format:"uuid"`
	Method  string `json:"method"`
	Route   string `json:"route" doc:"the route, such as /exports"`
	Key     string `json:"key" doc:"the Idempotency-Key"`
	Request string `json:"request" doc:"body of the refused request, up to 4 KiB; empty: none, or it may contain a secret"`
	Times   int64  `json:"times" doc:"number of refusals"`
	FirstAt Time   `json:"first_at"`
	LastAt  Time   `json:"last_at"`
}
