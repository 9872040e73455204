package nextcloud

import (
	"context"
	"strconv"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/head/dav"
	"example.org/smartdrive/internal/usecase/files"
	"example.org/smartdrive/internal/usecase/share"
	"example.org/smartdrive/internal/usecase/space"
)

// shared is a share in the sense of the protocol: the role of a user or group at a node, or a link
// to the node. Exactly one of grant and link is set.
type shared struct {
	grant *access.Grant // nil for a link
	link  *share.View
	item  item
	mine  bool // the caller may change it
}

// numbered returns the key by which space.Numbers finds the share's number: the node, and the user,
// group or link.
func (s shared) numbered() space.NumberedShare {
	if s.link != nil {
		return space.NumberedShare{Node: s.link.Node, Subject: s.link.ID.String()}
	}
	return space.NumberedShare{Node: s.grant.Node, Subject: s.grant.Principal.String()}
}

// item is a shared file or folder.
type item struct {
	id, parent drive.NodeID // parent is zero if the caller may not know it
	folder     bool
	size       int64
	mime       string
	mtime      drive.Time
	address    string // address for the use cases
	path       string // path in the client's view; empty: derived from address
	owner      string // user who owns the drive, or the space; empty: the caller
}

// isFolder reports whether the node is a folder.
func isFolder(n files.NodeView) bool { return n.Type == tree.TypeFolder }

// itemOf converts a node to the item of a share. Owner and path stay empty until they are looked
// up.
func (c sharing) itemOf(n files.NodeView) item {
	at := item{id: n.ID, folder: isFolder(n), size: n.Size, mime: n.Mime, mtime: n.MTime, address: n.Path}
	if n.ParentID != nil {
		at.parent = *n.ParentID
	}
	return at
}

// itemOfNode converts a node to the item of a share. Owner and path stay empty until they are
// looked up.
func itemOfNode(n tree.Node, address string) item {
	return item{id: n.ID, parent: n.Parent, folder: n.IsFolder(), size: int64(n.Size), mime: n.Mime, mtime: n.MTime, address: address}
}

const (
	// maxListed bounds the roles, and the links, in a list: about 2 MiB of each.
	maxListed = 2000
	// listedAtOnce is the page size of a statement.
	listedAtOnce = 500
)

// listShares handles GET of shares: those at a path, of the children of a folder, given to the
// caller, or all that the caller has given in the own drive. It fails with drive.NotFound for an
// unknown path.
func (c sharing) listShares(ctx context.Context) (any, error) {
	q := c.r.URL.Query()
	is := func(name string) bool { v := q.Get(name); return v == "true" || v == "1" }
	var node files.NodeView
	var err error
	if q.Get("path") != "" {
		if node, err = c.pathOf(ctx, q.Get("path")); dav.IsLayout(err) { // folders of the layout have no shares
			return list{}, nil
		}
		if err != nil {
			return nil, err
		}
	}
	var all []shared
	keep := func(shared) bool { return true }
	switch {
	case is("shared_with_me"):
		all, err = c.sharedWithMe(ctx)
		keep = func(s shared) bool { return node.ID.IsZero() || s.item.id == node.ID }
	case node.ID.IsZero():
		all, err = c.sharedByMe(ctx)
	case is("subfiles"):
		if !isFolder(node) {
			return nil, drive.BadField("path", drive.NotAllowed, "allowed", []string{"a folder"}, "sent", "a file")
		}
		all, err = c.sharedIn(ctx, node)
	default:
		all, err = c.sharedAt(ctx, node)
	}
	if err != nil {
		return nil, err
	}
	var some []shared
	for _, s := range all {
		if keep(s) {
			some = append(some, s)
		}
	}
	return c.showShares(ctx, some)
}

// ownerAndRights sets the owner of an item and returns the caller's rights there. It fails with
// drive.NotFound or drive.Forbidden.
func (c sharing) ownerAndRights(ctx context.Context, at *item) (access.Right, error) {
	panel, err := c.Spaces.Access(ctx, c.who, at.id)
	if err != nil {
		return 0, err
	}
	if at.owner = panel.Owner; at.owner == "" {
		place, err := drive.ParseAddress(at.address)
		if err != nil {
			return 0, err
		}
		at.owner = place.Place
		if _, err := drive.ParseID[drive.NodeID](place.Place); err == nil { // shared with the caller from a space
			at.owner = product
		}
	}
	return panel.Rights, nil
}

// mayChange reports whether the caller, having these rights at the node, may change a link.
func (c sharing) mayChange(v share.View, rights access.Right) bool {
	return v.Account == c.who.Account || v.User == c.who.User || rights.Has(access.Manage)
}

// sharedAt returns the grants and links of a node. It fails with the error of a query or without
// the right to see them; then the result must not be used.
func (c sharing) sharedAt(ctx context.Context, node files.NodeView) ([]shared, error) {
	at := c.itemOf(node)
	rights, err := c.ownerAndRights(ctx, &at)
	if err != nil {
		return nil, err
	}
	grants, err := c.grantsAt(ctx, node.ID)
	if err != nil {
		return nil, err
	}
	var all []shared
	for _, g := range grants {
		all = append(all, shared{grant: &g, item: at, mine: rights.Has(access.Manage)})
	}
	links, err := c.links(ctx, share.Query{Node: node.ID})
	for _, v := range links {
		all = append(all, shared{link: &v, item: at, mine: c.mayChange(v, rights)})
	}
	return all, err
}

// grantsAt returns the roles of users and groups at a node, up to maxListed. Role none is left out.
// It fails with drive.NotFound or drive.Forbidden.
func (c sharing) grantsAt(ctx context.Context, node drive.NodeID) (all []access.Grant, err error) {
	for after := (drive.PrincipalID{}); len(all) < maxListed; {
		page, err := c.Spaces.Members(ctx, c.who, node, after, listedAtOnce)
		if err != nil {
			return nil, err
		}
		for _, g := range page {
			if after = g.Principal; g.Role != access.None {
				all = append(all, g)
			}
		}
		if len(page) < listedAtOnce {
			break
		}
	}
	return all, nil
}

// links returns the links that q selects, up to about maxListed, without those whose node has been
// deleted.
func (c sharing) links(ctx context.Context, q share.Query) (all []share.View, err error) {
	for q.Limit = listedAtOnce; len(all) < maxListed; {
		page, err := c.Shares.List(ctx, c.who, q)
		if err != nil {
			return nil, err
		}
		for _, v := range page {
			if q.After = v.ID; v.State != share.Gone {
				all = append(all, v)
			}
		}
		if len(page) < q.Limit {
			break
		}
	}
	return all, nil
}

// sharedByMe returns the grants and links that the caller has given in the own drive, up to about
// maxListed of each. Role none and deleted nodes are left out.
func (c sharing) sharedByMe(ctx context.Context) (all []shared, err error) {
	for after := (access.Grant{}); len(all) < maxListed; {
		page, err := c.Spaces.ListSharedByMe(ctx, c.who, after, listedAtOnce)
		if err != nil {
			return nil, err
		}
		for _, s := range page {
			if after = s.Grant; s.Item.Name != "" && s.Role != access.None {
				all = append(all, shared{grant: &s.Grant, item: itemOfNode(s.Item, s.Path), mine: true})
			}
		}
		if len(page) < listedAtOnce {
			break
		}
	}
	links, err := c.links(ctx, share.Query{})
	if err != nil {
		return nil, err
	}
	mine, err := c.linksWithNodes(ctx, links)
	return append(all, mine...), err
}

// sharedIn returns the grants and links that the caller has given at the children of a folder. Role
// none and deleted nodes are left out.
func (c sharing) sharedIn(ctx context.Context, folder files.NodeView) (all []shared, err error) {
	roles, err := c.Spaces.ListSharedByMeIn(ctx, c.who, folder.ID, maxListed)
	if err != nil {
		return nil, err
	}
	for _, s := range roles {
		if s.Item.Name != "" && s.Role != access.None {
			all = append(all, shared{grant: &s.Grant, item: itemOfNode(s.Item, s.Path), mine: true})
		}
	}
	links, err := c.links(ctx, share.Query{ChildrenOf: folder.ID})
	if err != nil {
		return nil, err
	}
	mine, err := c.linksWithNodes(ctx, links)
	return append(all, mine...), err
}

// linksWithNodes returns links of the caller's own drive with their nodes, without those in the
// trash.
func (c sharing) linksWithNodes(ctx context.Context, links []share.View) ([]shared, error) {
	nodes := make([]tree.Node, len(links))
	for i, v := range links {
		nodes[i] = v.Item
	}
	views, err := c.Files.ViewMine(ctx, c.who, nodes)
	if err != nil {
		return nil, err
	}
	var all []shared
	for _, v := range links {
		if n, there := views[v.Node]; there && n.TrashedAt == nil { // otherwise it has been deleted since
			all = append(all, shared{link: &v, item: c.itemOf(n), mine: true})
		}
	}
	return all, nil
}

// sharedWithMe returns up to maxListed shares that other users have given to the caller, with the
// paths at which the caller sees them.
func (c sharing) sharedWithMe(ctx context.Context) ([]shared, error) {
	mounts, err := c.Spaces.Mounted(ctx, c.who)
	if err != nil {
		return nil, err
	}
	me, err := c.Name(ctx, c.who.User)
	if err != nil {
		return nil, err
	}
	var all []shared
	for _, m := range mounts[:min(len(mounts), maxListed)] {
		g := m.Grant
		if g.Kind == access.User { // listings of the caller's roles have no name
			g.Name = me
		}
		at := itemOfNode(m.Item, m.Path)
		at.parent, at.path, at.owner = drive.NodeID{}, dav.SharePath(m.As), m.Owner
		if at.owner == "" {
			at.owner = m.Space
		}
		all = append(all, shared{grant: &g, item: at})
	}
	return all, nil
}

// findShare returns a share by its number. It fails with NotFound if the caller may not see it.
func (c sharing) findShare(ctx context.Context, number int64) (s shared, err error) {
	of, err := c.Numbers.Find(ctx, number)
	if err != nil {
		return s, err
	}
	node, err := c.Files.Get(ctx, c.who, of.Node)
	if err == nil && node.TrashedAt != nil {
		err = drive.Fail(drive.NotFound)
	}
	if err != nil {
		return s, hideForbidden(err)
	}
	s.item = c.itemOf(node)
	rights, err := c.ownerAndRights(ctx, &s.item)
	if err != nil {
		return s, hideForbidden(err)
	}
	principal, err := drive.ParseID[drive.PrincipalID](of.Subject)
	if err != nil {
		return s, err
	}
	g, err := c.Spaces.Member(ctx, c.who, of.Node, principal)
	if err == nil && g.Role != access.None {
		s.grant, s.mine = &g, rights.Has(access.Manage)
		return s, nil
	}
	if err != nil && !drive.IsKind(err, drive.NotFound) {
		return s, hideForbidden(err)
	}
	id, err := drive.ParseID[drive.ShareID](of.Subject)
	if err != nil {
		return s, err
	}
	v, err := c.Shares.Find(ctx, c.who, id)
	if err == nil && v.State == share.Gone {
		err = drive.Fail(drive.NotFound)
	}
	s.link, s.mine = &v, c.mayChange(v, rights)
	return s, hideForbidden(err)
}

// hideForbidden turns Forbidden into NotFound, so that the caller does not learn of the share.
func hideForbidden(err error) error {
	if drive.IsKind(err, drive.Forbidden) {
		return drive.Wrap(err, drive.NotFound)
	}
	return err
}

// showShare renders one share that the caller has just created or changed. It looks up who owns the
// node and whether the caller may change the share.
func (c sharing) showShare(ctx context.Context, s shared) (any, error) {
	rights, err := c.ownerAndRights(ctx, &s.item)
	if err != nil {
		return nil, err
	}
	s.mine = rights.Has(access.Manage)
	if s.link != nil {
		s.mine = c.mayChange(*s.link, rights)
	}
	all, err := c.showShares(ctx, []shared{s})
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// showShares renders shares in the protocol's format, in their order; an empty list for none. It
// assigns numbers to shares that have none yet, which writes to the database.
func (c sharing) showShares(ctx context.Context, all []shared) (list, error) {
	if len(all) == 0 {
		return list{}, nil
	}
	me, err := c.Name(ctx, c.who.User)
	if err != nil {
		return nil, err
	}
	var addresses []string
	var nodes []drive.NodeID
	keys := make([]space.NumberedShare, len(all))
	for i, s := range all {
		keys[i] = s.numbered()
		if s.item.path == "" {
			addresses = append(addresses, s.item.address)
		}
		if nodes = append(nodes, s.item.id); !s.item.parent.IsZero() {
			nodes = append(nodes, s.item.parent)
		}
	}
	paths, err := c.DAV.ViewPaths(ctx, c.view(ctx, "/"), addresses)
	if err != nil {
		return nil, err
	}
	numbers, err := c.Numbers.Of(ctx, keys)
	if err != nil {
		return nil, err
	}
	ids, err := c.tags.Numbers(ctx, nodes)
	if err != nil {
		return nil, err
	}
	shown := make(list, 0, len(all))
	for i, s := range all {
		if s.item.path == "" {
			s.item.path = paths[s.item.address]
		}
		if s.item.owner == "" {
			s.item.owner = me
		}
		parent := int64(sharedNumber)
		if !s.item.parent.IsZero() {
			parent = firstNumber + ids[s.item.parent]
		}
		shown = append(shown, c.shareObject(s, shareNumbers{numbers[keys[i]], firstNumber + ids[s.item.id], parent}, me))
	}
	return shown, nil
}

// shareNumbers are the protocol's numbers of a share, its node, and the node's folder.
type shareNumbers struct{ share, node, parent int64 }

// hiddenPassword stands for the hash of a password, which clients test for presence.
const hiddenPassword = "********"

// shareObject renders a share. n holds its numbers; me is the caller's name, shown as the owner of
// what the caller may change.
func (c sharing) shareObject(s shared, n shareNumbers, me string) object {
	by := s.item.owner
	if s.mine { // clients let only the owner change a share
		by = me
	}
	kind, mimetype := "file", s.item.mime
	if s.item.folder {
		kind, mimetype = "folder", "httpd/unix-directory"
	}
	var special object
	var made, expires drive.Time
	if s.link != nil {
		made, expires = s.link.CreatedAt, s.link.ExpiresAt
		special = c.linkObject(s)
	} else {
		made, expires = s.grant.Created, s.grant.Expires
		special = grantObject(s)
	}
	var end any
	if expires != 0 {
		end = expires.Std().UTC().Format(time.DateOnly) + " 00:00:00"
	}
	o := object{
		{"id", strconv.FormatInt(n.share, 10)},
		{"uid_owner", by},
		{"displayname_owner", by},
		{"can_edit", s.mine},
		{"can_delete", s.mine},
		{"stime", made.Std().Unix()},
		{"parent", nil},
		{"expiration", end},
		{"uid_file_owner", s.item.owner},
		{"displayname_file_owner", s.item.owner},
		{"label", ""},
		{"path", s.item.path},
		{"item_type", kind},
		{"mimetype", mimetype},
		{"has_preview", !s.item.folder && c.Thumbs.Draws(s.item.mime)},
		{"item_size", s.item.size},
		{"item_mtime", s.item.mtime.Std().Unix()},
		{"storage_id", c.Instance},
		{"storage", 1},
		{"item_source", n.node},
		{"file_source", n.node},
		{"file_parent", n.parent},
		{"file_target", s.item.path},
		{"mail_send", 0},
		{"hide_download", 0},
	}
	return append(o, special...)
}

// grantObject renders the members that only a share with a user or group has.
func grantObject(s shared) object {
	kind := toUser
	if s.grant.Kind == access.Group {
		kind = toGroup
	}
	return object{
		{"share_type", kind},
		{"permissions", permissionsOf(s.grant.Role, s.item.folder)},
		{"note", s.grant.Note},
		{"token", nil},
		{"share_with", s.grant.Name},
		{"share_with_displayname", s.grant.Name},
		{"share_with_displayname_unique", s.grant.Name},
	}
}

// linkObject renders the members that only a link has. The code is replaced by hiddenPassword.
func (c sharing) linkObject(s shared) object {
	var password any
	if s.link.NeedsCode() {
		password = hiddenPassword
	}
	address := ""
	if s.link.Token != "" {
		address = c.base() + "/s/" + s.link.Token
	}
	return object{
		{"share_type", byLink},
		{"permissions", permitsRead},
		{"note", ""},
		{"token", s.link.Token},
		{"url", address},
		{"share_with", password},
		{"share_with_displayname", "(Shared link)"},
		{"password", password},
		{"send_password_by_talk", false},
	}
}
