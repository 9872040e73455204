package api

// Node is a file or a folder.
type Node struct {
	ID        string   `json:"id" format:"uuid"`
	ParentID  *string  `json:"parent_id" format:"uuid"` // nil: a root folder, or hidden from the caller
	Name      string   `json:"name"`
	Path      string   `json:"path"` // of a trashed node: its former path; //PLACE/... outside of the caller's own drive
	Type      NodeType `json:"type"`
	Size      int64    `json:"size"` // bytes; 0 for a folder
	MIME      string   `json:"mime"`
	Mtime     Time     `json:"mtime"` // modification time of the client's file
	CreatedAt Time     `json:"created_at"`
	UpdatedAt Time     `json:"updated_at"`
	Rev       int64    `json:"rev"` // grows with every change of the node
	Seq       int64    `json:"seq"` // position of the last change of the node in the change feed
	Digests   Digests  `json:"digests"`
	TrashedAt *Time    `json:"trashed_at"` // also set on the descendants of a trashed folder

	// Role is the caller's role at a node requested on its own, outside of the caller's own drive.
	Role string `json:"role,omitempty" enum:"viewer,uploader,editor,manager"`
}

// Digest returns the node's BLAKE3 digest in hex, "" for a folder.
func (n Node) Digest() string { return n.Digests["blake3"] }

// NodeType is File or Folder.
type NodeType string

// The types of nodes.
const (
	File   NodeType = "file"
	Folder NodeType = "folder"
)

// Digests maps an algorithm ("blake3", "sha256", "sm3", "sha1", "md5") to lower-case hex.
type Digests map[string]string

// Conflict is the policy for a name that is already taken.
type Conflict string

// The conflict policies.
const (
	Fail    Conflict = "fail"
	Rename  Conflict = "rename"  // "name (2).ext"
	Replace Conflict = "replace" // adds a new version to the existing file
)

// Version is a current or former content of a file.
type Version struct {
	ID        string  `json:"id" format:"uuid"`
	Size      int64   `json:"size"` // bytes
	MIME      string  `json:"mime"`
	Mtime     Time    `json:"mtime"`
	CreatedAt Time    `json:"created_at"`
	CreatedBy string  `json:"created_by"`
	Digests   Digests `json:"digests"`
	Current   bool    `json:"current"`
}

// Change is an entry of the change feed. One of Node, Deleted, OutOfView and DeletedDigest is set.
// A caller who sees only a part of the account gets digests instead of ids: the lower-case hex
// SHA-256 of the id's text. A client that has seen the node recognizes it; others learn nothing.
type Change struct {
	Seq           int64   `json:"seq"`
	Node          *Node   `json:"node,omitempty"`           // current state of a changed node
	Deleted       *string `json:"deleted,omitempty"`        // id of a deleted node
	OutOfView     string  `json:"out_of_view,omitempty"`    // the node exists and the caller cannot see it: no reason to delete other data
	DeletedDigest string  `json:"deleted_digest,omitempty"` // the node was deleted
}

// ChangePage is a page of the change feed. Next is the value of after in the next request, also if
// More is false.
type ChangePage struct {
	Items []Change `json:"items"`
	Next  string   `json:"next"`
	More  bool     `json:"more"`
}

// FolderTotals sums up what is below a folder.
type FolderTotals struct {
	Files   int64 `json:"files"`
	Folders int64 `json:"folders"`
	Size    int64 `json:"size" doc:"bytes of the current versions of all files"`
	More    bool  `json:"more" doc:"true: the sums are incomplete; false: they cover everything"`
}

// Link is a signed URL, which anyone who has it may read without a login until it expires.
type Link struct {
	URL       string `json:"url"`
	ExpiresAt Time   `json:"expires_at"`
}
