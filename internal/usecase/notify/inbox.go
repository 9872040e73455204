package notify

import (
	"context"
	"maps"
	"slices"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/notice"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Inbox shows users their notices and manages their notification settings. It is safe for
// concurrent use.
type Inbox struct {
	parts Parts
	mails bool // a mail server is configured
}

// NewInbox returns an Inbox. mails reports whether a mail server is configured; without one, mail
// addresses cannot be set.
func NewInbox(parts Parts, mails bool) *Inbox {
	if parts.Now == nil {
		parts.Now = time.Now
	}
	return &Inbox{parts, mails}
}

// Notification is a notice as its reader may see it.
type Notification struct {
	ID      notice.ID       `json:"id"`
	At      drive.Time      `json:"at"`
	Read    *drive.Time     `json:"read_at" doc:"when it was read; null: unread"`
	Kind    notice.Kind     `json:"kind" enum:"share,role,space,group,export,collect,quota,webhook,operation"`
	What    notice.Event    `json:"what" enum:"given,changed,more,taken,ending,ended,late,skipped,ready,failed,arrived,full,disabled" doc:"the event"`
	Gone    bool            `json:"gone" doc:"true: the reader no longer has access; all other details are omitted"`
	By      string          `json:"by,omitempty" doc:"name of the acting user; absent: the server, or someone without an account"`
	Node    drive.NodeID    `json:"node_id,omitzero" doc:"id of the file or folder, if the reader has access"`
	Name    string          `json:"name,omitempty" doc:"name of the file or folder, space, group, export or webhook; absent: none or unknown"`
	Path    string          `json:"path,omitempty" doc:"path of the file or folder as seen by the reader"`
	Space   string          `json:"space,omitempty" doc:"name of the space"`
	Role    string          `json:"role,omitempty" doc:"role that was granted, changed, revoked or ends"`
	Expires *drive.Time     `json:"expires_at,omitempty" doc:"when the role or the export ends"`
	Export  drive.ExportID  `json:"export_id,omitzero"`
	Failed  int64           `json:"failed,omitempty" doc:"number of documents missing from the export, or of failed items of the operation"`
	Reason  string          `json:"reason,omitempty" doc:"why an export failed or was skipped, or a webhook was disabled; what the operation does, such as move"`
	Total   *drive.ByteSize `json:"total,omitempty" doc:"quota of the drive or space in bytes"`
}

// NotificationPage is a page of notices, newest first.
type NotificationPage struct {
	Items      []Notification `json:"items"`
	NextCursor *string        `json:"next_cursor"`
	Unread     int            `json:"unread" doc:"number of all unread notifications of the caller"`
}

// List returns a page of up to limit notices of the caller, newest first; with unread only unread
// ones. A zero limit means 200. It fails with CursorInvalid, and with BadRequest for a limit that
// is not from 1 to tree.MaxLimit.
func (i *Inbox) List(ctx context.Context, who drive.Who, cursor string, limit int, unread bool) (p NotificationPage, err error) {
	if limit, err = tree.CheckLimit(limit); err != nil {
		return p, err
	}
	var before notice.ID
	if cursor != "" {
		if before, err = drive.ParseID[notice.ID](cursor); err != nil {
			return p, drive.Fail(drive.CursorInvalid)
		}
	}
	q := i.parts.DB.For(who.Account)
	all, err := i.parts.Notices.List(ctx, q, who.User, before, limit+1, unread)
	if err != nil {
		return p, err
	}
	if len(all) > limit {
		all = all[:limit]
		next := all[limit-1].ID.String()
		p.NextCursor = &next
	}
	if p.Unread, err = i.parts.Notices.Unread(ctx, q, who.User); err != nil {
		return p, err
	}
	p.Items, err = show(ctx, i.parts, who, all)
	return p, err
}

// ReadMark selects notices to mark as read.
type ReadMark struct {
	IDs  []notice.ID // these notices
	UpTo notice.ID   // this notice and all older ones
}

// maxMarks bounds ReadMark.IDs.
const maxMarks = 1000

// Read marks notices as read and returns how many remain unread. Missing notices, and those already
// read, are ignored. It fails with BadRequest if m is empty or too long.
func (i *Inbox) Read(ctx context.Context, who drive.Who, m ReadMark) (unread int, err error) {
	if len(m.IDs) > maxMarks {
		return 0, drive.BadField("ids", drive.TooLong, "limit", maxMarks, "sent", len(m.IDs))
	}
	if len(m.IDs) == 0 && m.UpTo.IsZero() {
		return 0, drive.BadField("ids", drive.Required)
	}
	err = i.parts.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := i.parts.Notices.MarkRead(ctx, tx, who.User, m.IDs); err != nil {
			return err
		}
		if !m.UpTo.IsZero() {
			if err := i.parts.Notices.MarkReadUpTo(ctx, tx, who.User, m.UpTo); err != nil {
				return err
			}
		}
		unread, err = i.parts.Notices.Unread(ctx, tx, who.User)
		return err
	})
	return unread, err
}

// readerData holds what is needed to show notices to one reader, read once for all of them.
type readerData struct {
	parts  Parts
	who    drive.Who
	passes map[drive.NodeID]access.Pass // nodes that the reader may know of
	nodes  map[drive.NodeID]tree.Node
	spots  map[drive.NodeID]tree.Location
	names  map[drive.UserID]string
	// groups of the reader
	groups map[drive.GroupID]bool
}

// show converts notices, in their order, to what their reader, who, may see of them now. It returns
// an error only if a query fails.
func show(ctx context.Context, parts Parts, who drive.Who, all []notice.Notice) ([]Notification, error) {
	a, err := loadReaderData(ctx, parts, who, all)
	if err != nil {
		return nil, err
	}
	seen := make([]Notification, len(all))
	for i, n := range all {
		seen[i] = a.view(n)
	}
	return seen, nil
}

// loadReaderData reads what show needs for all notices: the reader's rights, nodes, paths, names
// and groups. It uses a fixed number of reads, not one per notice.
func loadReaderData(ctx context.Context, parts Parts, who drive.Who, all []notice.Notice) (a readerData, err error) {
	a = readerData{parts: parts, who: who, passes: map[drive.NodeID]access.Pass{}, groups: map[drive.GroupID]bool{}}
	asked := map[drive.NodeID]bool{}
	var people []drive.UserID
	for _, n := range all {
		if !n.By.IsZero() && !slices.Contains(people, n.By) {
			people = append(people, n.By)
		}
		if !n.Node.IsZero() {
			asked[n.Node] = true
		}
	}
	q := parts.DB.For(who.Account)
	passes, err := parts.Access.PassesOf(ctx, q, who, slices.Collect(maps.Keys(asked)))
	if err != nil {
		return a, err
	}
	nodes := make([]drive.NodeID, 0, len(passes))
	for id, pass := range passes {
		if mayKnow(pass) {
			a.passes[id], nodes = pass, append(nodes, id)
		}
	}
	if a.groups, err = groupsOf(ctx, q, who.User); err != nil {
		return a, err
	}
	if a.names, err = parts.Users.Names(ctx, q, people...); err != nil {
		return a, err
	}
	if a.nodes, err = tree.ByID(ctx, parts.Tree, q, nodes...); err != nil {
		return a, err
	}
	there := make([]tree.Node, 0, len(a.nodes))
	for _, n := range a.nodes {
		there = append(there, n)
	}
	a.spots, err = parts.Tree.LocationsOf(ctx, q, there)
	return a, err
}

// maxGroups bounds how many groups of one user are read.
const maxGroups = 10_000

// groupsOf returns the groups that a user is in, as true values, maxGroups at most.
func groupsOf(ctx context.Context, q sqldb.Querier, user drive.UserID) (map[drive.GroupID]bool, error) {
	rows, err := q.Query(ctx, "SELECT group_id FROM group_members WHERE user_id = ? LIMIT ?", user, maxGroups)
	all, err := sqldb.Scan(rows, err, func(g *drive.GroupID, scan func(...any) error) error { return scan(g) })
	in := map[drive.GroupID]bool{}
	for _, g := range all {
		in[g] = true
	}
	return in, err
}

// view returns a notice as the reader may see it. If the reader may not see its subject any more,
// Gone is true and names are left out.
func (d readerData) view(n notice.Notice) Notification {
	bare := Notification{ID: n.ID, At: n.At, Kind: n.Kind, What: n.What}
	if n.Read != 0 {
		bare.Read = &n.Read
	}
	s := bare
	s.By, s.Name, s.Role, s.Export, s.Failed, s.Reason = d.names[n.By], n.Data.Name, n.Data.Role, n.Data.Export, n.Data.Failed, n.Data.Reason
	if n.Data.Expires != 0 {
		s.Expires = &n.Data.Expires
	}
	if n.Data.Total != 0 {
		s.Total = &n.Data.Total
	}
	if !d.reveal(n, &s) {
		bare.Gone = true
		return bare
	}
	return s
}

// reveal reports whether the reader may know the subject of a notice, and if so sets its current
// name and address in s. If it returns false the caller must not use s.
func (d readerData) reveal(n notice.Notice, s *Notification) bool {
	pass, sees := d.passes[n.Node]
	switch n.Kind {
	case notice.Collect:
		return sees && pass.Rights.Has(access.See) && d.locate(n, pass, s)
	case notice.Share, notice.Space:
		if n.What == notice.MoreShares { // contains no names
			return true
		}
		return sees && d.locate(n, pass, s)
	case notice.Role:
		if n.What == notice.Taken || n.What == notice.Ended { // the stored name is from before
			return true
		}
		return sees && d.locate(n, pass, s)
	case notice.Group:
		group, err := drive.ParseID[drive.GroupID](n.Data.Subject)
		return n.What == notice.Taken || err == nil && d.groups[group]
	case notice.Quota, notice.Webhook:
		if n.Account == d.who.Account {
			return true
		}
		s.Space = pass.Space
		return sees && pass.Rights.Has(access.Manage)
	case notice.Operation: // contains no names
		return true
	case notice.Export:
	}
	return n.Account == d.who.Account
}

// locate adds the name and address of a notice's node to s. It returns false if the node cannot be
// opened: it is deleted, in the trash or being moved.
func (d readerData) locate(n notice.Notice, pass access.Pass, s *Notification) bool {
	node, there := d.nodes[n.Node]
	folder, placed := d.spots[node.Parent]
	if !there || node.Trashed != 0 || !node.Operation.IsZero() || !node.IsRoot() && (!placed || folder.Trashed != 0) {
		return false
	}
	s.Node, s.Space = node.ID, pass.Space
	var path drive.Path
	if s.Name = pass.Space; !node.IsRoot() {
		s.Name = string(node.Name)
		path = append(append(path, folder.Path...), node.Name)
	}
	switch {
	case !pass.Who.Guest:
		s.Path = path.String()
	case pass.Space != "":
		s.Path = drive.Address{Place: pass.Space, Path: path}.String()
	case pass.Level == 0: // the node itself is shared
		s.Path = drive.Address{Place: node.ID.String()}.String()
	}
	return true
}
