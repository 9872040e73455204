package api

// LinkTarget is the node that a link or role refers to. Only ID is set if the node has been deleted
// permanently.
type LinkTarget struct {
	ID   string   `json:"id" format:"uuid"`
	Name string   `json:"name"`
	Type NodeType `json:"type"`
	Size int64    `json:"size"`
}

// Share is a public link through which anyone can list and download a node.
type Share struct {
	ID           string     `json:"id" format:"uuid"`
	Token        string     `json:"token"` // last part of the URL; a secret. Empty if the server key that sealed it is lost
	URL          string     `json:"url"`   // empty like Token
	Node         LinkTarget `json:"node"`
	Code         *string    `json:"code"`          // extraction code; nil: none; empty like Token
	ExpiresAt    *Time      `json:"expires_at"`    // nil: never
	MaxDownloads *int64     `json:"max_downloads"` // nil: unlimited
	Downloads    int64      `json:"downloads"`
	Views        int64      `json:"views"`
	CreatedAt    Time       `json:"created_at"`
	State        string     `json:"state" enum:"open,expired,used-up,gone"`
}

// Collect is a collect link, through which anyone can upload files into a folder.
type Collect struct {
	ID        string     `json:"id" format:"uuid"`
	Token     string     `json:"token,omitempty"` // last part of the URL; a secret, shown to callers who may write, unless the server key that sealed it is lost
	URL       string     `json:"url,omitempty"`   // shown to callers who may write
	Folder    LinkTarget `json:"folder"`
	Title     string     `json:"title"`
	Message   string     `json:"message"`
	ExpiresAt *Time      `json:"expires_at"` // nil: never
	MaxBytes  *int64     `json:"max_bytes"`  // nil: limited only by the account's quota
	MaxFile   *int64     `json:"max_file"`   // nil: no limit
	Files     int64      `json:"files"`      // files received
	Received  int64      `json:"received" doc:"bytes of received files"`
	Arriving  int64      `json:"arriving"` // declared bytes of uploads in progress
	Left      *int64     `json:"left"`     // bytes that may still be sent; nil: no limit of its own
	CreatedAt Time       `json:"created_at"`
	State     string     `json:"state" enum:"open,expired,full,gone"`
}

// CollectedFile is a file that was sent through a collect link, or an upload in progress.
type CollectedFile struct {
	Upload    string  `json:"upload" format:"uuid"`
	Sender    string  `json:"sender"` // name that the sender entered; may be empty
	Name      string  `json:"name"`   // as sent
	Size      int64   `json:"size"`
	State     string  `json:"state" enum:"open,done"`
	NodeID    *string `json:"node_id" format:"uuid"` // nil unless the upload is done and its file is known
	CreatedAt Time    `json:"created_at"`
}
