package api

// Space is an account shared by its members.
type Space struct {
	ID        string `json:"id" format:"uuid"`
	RootID    string `json:"root_id" format:"uuid"` // its root folder
	Name      string `json:"name"`
	State     string `json:"state" enum:"active,archived,deleted"`
	Role      string `json:"role" enum:"none,viewer,uploader,editor,manager"` // role of the caller; none: an administrator who is no member
	Usage     Usage  `json:"usage"`
	CreatedAt Time   `json:"created_at"`
	UpdatedAt Time   `json:"updated_at"`
	DeletedAt *Time  `json:"deleted_at"` // nil: not deleted

	Links       string `json:"links" enum:"editors,managers,nobody" doc:"who may create links; links of other users cannot be opened"`
	Outward     string `json:"outward" enum:"managers,nobody" doc:"who may grant roles to users who are not members; nobody: existing grants to them have no effect"`
	TrashDays   int    `json:"trash_days" doc:"days that the trash is kept; 0: the server's setting"`
	VersionDays int    `json:"version_days" doc:"days that old versions are kept besides the last five; 0: the server's setting"`
}

// Usage is the used and the allowed storage of an account.
type Usage struct {
	Total *int64 `json:"total"` // bytes; nil: unlimited
	Used  int64  `json:"used"`  // finished files, including trash and old versions
	Owed  int64  `json:"owed,omitempty" doc:"bytes deleted but still stored; used and owed together may be twice the total (Q6)"`
}

// Grant is a role of a user or group at a node.
type Grant struct {
	NodeID      string `json:"node_id" format:"uuid"`
	Kind        string `json:"kind" enum:"user,group"`
	PrincipalID string `json:"principal_id" format:"uuid"`
	Name        string `json:"name"` // name of the user or group
	Role        string `json:"role" enum:"none,viewer,uploader,editor,manager"`
	Note        string `json:"note"`
	CreatedAt   Time   `json:"created_at"`
	ExpiresAt   *Time  `json:"expires_at"` // nil: never
}

// Access lists the grants that give access to a node.
type Access struct {
	Role   string        `json:"role" enum:"none,viewer,uploader,editor,manager"` // the caller's role at this node
	Owner  string        `json:"owner"`                                           // user who owns the drive of the node; empty: the node is in a space
	Grants []AccessGrant `json:"grants"`
}

// AccessGrant is a role granted at a node or at a folder above it.
type AccessGrant struct {
	Grant Grant `json:"grant"`
	Level int   `json:"level"` // number of folders above the node; 0: at the node itself
	Idle  bool  `json:"idle"`  // currently without effect: the space forbids sharing with non-members
}

// SharedByName is a node shared with a named user or group.
type SharedByName struct {
	Grant Grant      `json:"grant"`
	Path  string     `json:"path"` // address of the node for the caller
	Node  LinkTarget `json:"node"`

	// Set for what is shared with the caller:
	Owner  string `json:"owner"`  // user who owns the drive of the node; empty: the node is in a space
	Space  string `json:"space"`  // space of the node
	Alias  string `json:"alias"`  // the caller's own name for the node; empty: the node's name
	Hidden bool   `json:"hidden"` // hidden by the caller
}

// Principal is a user or group to share with.
type Principal struct {
	Kind string `json:"kind" enum:"user,group"`
	ID   string `json:"id" format:"uuid"`
	Name string `json:"name"`
}

// Group is a group of users.
type Group struct {
	ID        string `json:"id" format:"uuid"`
	Name      string `json:"name"`
	CreatedAt Time   `json:"created_at"`
	UpdatedAt Time   `json:"updated_at"`
}

// Member is a user in a group.
type Member struct {
	ID   string `json:"id" format:"uuid"`
	Name string `json:"name"`
}

// Webhook is an HTTP endpoint that receives the events of an account.
type Webhook struct {
	ID        string   `json:"id" format:"uuid"`
	Account   string   `json:"account_id" format:"uuid"`
	Name      string   `json:"name"`
	URL       string   `json:"url"`
	Types     []string `json:"types"` // empty: all but upload
	State     string   `json:"state" enum:"active,disabled"`
	Reason    string   `json:"reason,omitempty" enum:"failing,right,secret,gone"` // reason why it was disabled; absent: a user disabled it
	Skipped   int64    `json:"skipped"`                                           // events that the receiver has refused permanently
	Failures  int64    `json:"failures"`                                          // consecutive failures
	Status    int64    `json:"status"`                                            // last HTTP status of the receiver; 0: no response
	Error     string   `json:"error,omitempty" enum:"status,timeout,unreachable,address"`
	SentAt    *Time    `json:"sent_at"` // last attempt; nil: none
	NextAt    *Time    `json:"next_at"` // next attempt after a failure; nil: at the next event
	CreatedAt Time     `json:"created_at"`
	UpdatedAt Time     `json:"updated_at"`
	OldUntil  *Time    `json:"old_secret_until"` // until then requests are also signed with the previous secret; nil: only with the current one
	Secret    string   `json:"secret,omitempty"` // whsec_ and base64; only in the reply to creation or rotation
}

// ReplayResult is the reply to a request for a webhook's events again.
type ReplayResult struct {
	Webhook *Webhook `json:"webhook,omitempty"` // set after a replay since a time
	Status  *int     `json:"status,omitempty"`  // set after a replay of one event: status of the receiver; 0: not reached
}

// Me is the user of a token, the account and its storage usage.
type Me struct {
	User     MeUser    `json:"user"`
	Account  MeAccount `json:"account"`
	Usage    Usage     `json:"usage"`
	Pictures []string  `json:"pictures" doc:"kinds of files, besides images, that this server makes thumbnails of: video, pdf, heic, tiff; depends on the installed programs"`
}

// MeUser is the user in Me.
type MeUser struct {
	ID    string `json:"id" format:"uuid"`
	Name  string `json:"name"`
	Admin bool   `json:"admin"`

	MustChange bool `json:"must_change_password,omitempty" doc:"true: the session can only set a new password; absent otherwise"`
}

// MeAccount is the account in Me.
type MeAccount struct {
	ID string `json:"id" format:"uuid"`
}

// PreparedID is an id that works as an idempotency key for one creation until it expires.
type PreparedID struct {
	PreID     string `json:"pre_id"`
	ExpiresAt Time   `json:"expires_at"`
}
