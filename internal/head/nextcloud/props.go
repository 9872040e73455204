package nextcloud

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"smartdrive/internal/base/digest"
	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/head/dav"
	"smartdrive/internal/usecase/files"
	"smartdrive/internal/usecase/space"
)

// The namespaces of the properties.
const (
	owncloud  = "http://owncloud.org/ns"
	nextcloud = "http://nextcloud.org/ns"
)

// describer finds the properties of entries, and the headers of answers about them.
type describer struct {
	*call
	layout *layout
}

func (c *call) describer() describer { return describer{c, &layout{}} }

// known is what has been read about a page of entries.
type known struct {
	d       describer
	numbers map[drive.NodeID]int64
	folders map[drive.NodeID]tree.Mark       // of the folders of the page
	marks   map[string]files.PlaceMark       // by place
	names   map[string]drive.Name            // of all places beside the caller's own drive; only where the page needs them
	rights  map[drive.NodeID]access.Standing // of what is not the caller's own
	owner   string
	stars   map[drive.NodeID]bool
	shared  map[drive.NodeID]space.Ways
}

// properties is dav.Properties.
func (d describer) properties(ctx context.Context, who drive.Who, page []dav.Entry, names []dav.Name) (func(dav.Entry, dav.Name) (string, bool), error) {
	k := known{d: d, rights: map[drive.NodeID]access.Standing{}}
	asked := func(space string, locals ...string) bool {
		return slices.ContainsFunc(names, func(n dav.Name) bool { return n.Space == space && slices.Contains(locals, n.Local) })
	}
	var err error
	if names == nil || asked("DAV:", "getetag") || asked(owncloud, "size") || asked("DAV:", "getcontentlength") {
		if err = k.readMarks(ctx, who, page); err != nil {
			return nil, err
		}
	}
	if asked(owncloud, "id", "fileid") {
		ids := make([]drive.NodeID, 0, len(page))
		for _, e := range page {
			if !e.Virtual {
				ids = append(ids, e.Node)
			}
		}
		if k.numbers, err = d.tags.Numbers(ctx, ids); err != nil {
			return nil, err
		}
	}
	if asked(owncloud, "permissions", "share-types") || asked(nextcloud, "acl-permissions") {
		var others []drive.NodeID
		for _, e := range page {
			if e.Place != "" && !e.Virtual {
				others = append(others, e.Node)
			}
		}
		if k.rights, err = d.tags.Rights(ctx, who, others); err != nil {
			return nil, err
		}
	}
	if asked(owncloud, "share-types") {
		if k.shared, err = k.readShared(ctx, page); err != nil {
			return nil, err
		}
	}
	if asked(owncloud, "favorite") {
		ids, err := d.Shelf.StarredIDs(ctx, who)
		if err != nil {
			return nil, err
		}
		k.stars = make(map[drive.NodeID]bool, len(ids))
		for _, id := range ids {
			k.stars[id] = true
		}
	}
	if asked(owncloud, "owner-id", "owner-display-name") {
		if k.owner, err = d.Name(ctx, who.User); err != nil {
			return nil, err
		}
	}
	return k.property, nil
}

// readShared reads how entries are shared that the caller may share: their own, and what they
// manage.
func (k *known) readShared(ctx context.Context, page []dav.Entry) (map[drive.NodeID]space.Ways, error) {
	var ids []drive.NodeID
	for _, e := range page {
		if !e.Virtual && (e.Place == "" || k.rights[e.Node].Rights.Has(access.Manage)) {
			ids = append(ids, e.Node)
		}
	}
	return k.d.Spaces.Ways(ctx, ids)
}

// layout is what a request has read of all places beside the caller's own drive, once for all pages
// of a listing. Marks that were read before a page are older than what the page shows, which makes
// a client list again; never newer.
type layout struct {
	names map[string]drive.Name // of the places that the caller sees; nil: not read
	marks map[string]files.PlaceMark
}

// read reads the places and their marks, by some statements however many there are.
func (l *layout) read(ctx context.Context, d describer, who drive.Who) error {
	all, err := d.DAV.Places(ctx, who)
	if err != nil {
		return err
	}
	names, tops := make(map[string]drive.Name, len(all)), make(map[string]drive.NodeID, len(all))
	for _, p := range all {
		names[p.Address] = p.Name
		if tops[p.Address] = p.Root; p.Root.IsZero() {
			tops[p.Address] = p.Node
		}
	}
	l.marks, err = d.marksOf(ctx, who, tops)
	for place := range tops { // what has no mark is not in the listing of all, either
		if _, seen := l.marks[place]; !seen {
			delete(names, place)
		}
	}
	if err == nil {
		l.names = names
	}
	return err
}

// marksOf returns the marks of places by their tops. What the caller does not see has none.
func (d describer) marksOf(ctx context.Context, who drive.Who, tops map[string]drive.NodeID) (map[string]files.PlaceMark, error) {
	if len(tops) == 0 {
		return nil, nil
	}
	found, err := d.tags.OfTops(ctx, who, slices.Collect(maps.Values(tops)))
	marks := make(map[string]files.PlaceMark, len(found))
	for place, top := range tops {
		if m, seen := found[top]; seen {
			marks[place] = m
		}
	}
	return marks, err
}

// readMarks reads the marks of the folders of the page, and of the places that they lie in. The
// root has those of all places that the caller sees, and so have the folders of the layout.
func (k *known) readMarks(ctx context.Context, who drive.Who, page []dav.Entry) error {
	listed := map[string]bool{} // places of which the page has folders
	tops := map[string]drive.NodeID{}
	var folders []drive.NodeID
	all := false
	for _, e := range page {
		if e.IsFolder() && !e.Virtual {
			folders = append(folders, e.Node)
		}
		switch {
		case e.Place != "" && len(e.Path) == 0:
			tops[e.Place] = e.Node
		case e.IsFolder() && !e.Virtual:
			listed[e.Place] = true
		}
		all = all || e.Virtual || isHome(e)
	}
	var err error
	if k.folders, err = k.d.tags.Folders(ctx, folders); err != nil {
		return err
	}
	places := k.d.layout
	if all && places.names == nil {
		if err := places.read(ctx, k.d, who); err != nil {
			return err
		}
	}
	if all {
		k.names = places.names
	}
	maps.DeleteFunc(tops, func(place string, _ drive.NodeID) bool { _, known := places.marks[place]; return known })
	if k.marks, err = k.d.marksOf(ctx, who, tops); err != nil {
		return err
	}
	for place := range listed {
		if _, known := k.mark(place); known {
			continue
		}
		m, err := k.d.tags.Of(ctx, who, place)
		if err != nil { // a folder without a mark would have a tag that never changes
			return err
		}
		if k.marks == nil {
			k.marks = map[string]files.PlaceMark{}
		}
		k.marks[place] = m
	}
	return nil
}

// mark returns the mark of a place.
func (k *known) mark(place string) (files.PlaceMark, bool) {
	if m, known := k.marks[place]; known {
		return m, true
	}
	m, known := k.d.layout.marks[place]
	return m, known
}

// isHome reports whether an entry is the top of the caller's own drive.
func isHome(e dav.Entry) bool { return !e.Virtual && e.Place == "" && len(e.Path) == 0 }

// layoutTime is the time of the folders of the layout, which are no nodes: any one, but always the
// same.
const layoutTime = "Sat, 01 Jan 2000 00:00:00 GMT"

// property is what the function of dav.Properties does.
func (k *known) property(e dav.Entry, n dav.Name) (string, bool) {
	switch n.Space {
	case "DAV:":
		switch n.Local {
		case "getetag":
			if e.IsFolder() {
				return escape(k.tag(e)), true
			}
		case "getcontentlength": // there are clients that take what has none for broken
			if e.IsFolder() {
				return strconv.FormatInt(k.size(e), 10), true
			}
		case "getlastmodified": // desktop clients refuse what has none, with all that is in it
			return layoutTime, e.Virtual
		}
		return "", false
	case owncloud:
		return k.own(e, n.Local)
	case nextcloud:
		return k.next(e, n.Local)
	}
	return "", false
}

func (k *known) own(e dav.Entry, local string) (string, bool) {
	switch local {
	case "id":
		return escape(k.id(e)), true
	case "fileid":
		return strconv.FormatInt(k.number(e), 10), true
	case "permissions":
		return k.permissions(e), true
	case "size":
		return strconv.FormatInt(k.size(e), 10), true
	case "checksums":
		sums := checksums(e)
		return "<oc:checksum>" + escape(sums) + "</oc:checksum>", sums != ""
	case "favorite":
		if k.stars[e.Node] && !e.Virtual {
			return "1", true
		}
		return "0", true
	case "comments-unread":
		return "0", true
	case "owner-id", "owner-display-name":
		return escape(k.owner), e.Place == ""
	case "share-types":
		return k.shareTypes(e), true
	case "tags":
		return "", true
	case "data-fingerprint": // of whatever folder a client keeps; empty is one, too: there will be another one
		return escape(k.d.Fingerprint), e.IsFolder()
	}
	return "", false
}

func (k *known) next(e dav.Entry, local string) (string, bool) {
	switch local {
	case "has-preview":
		return strconv.FormatBool(!e.IsFolder() && k.d.Thumbs.Draws(e.Mime)), true
	case "is-encrypted":
		return "0", true
	case "mount-type":
		if e.Place != "" {
			return "shared", true
		}
		return "", true
	case "creation_time", "upload_time":
		return strconv.FormatInt(e.CreatedAt.Std().Unix(), 10), !e.Virtual
	case "hidden", "lock":
		return "", false
	}
	return "", false
}

// The numbers of the folders of the layout, which are no nodes; those of nodes begin above.
const (
	spacesNumber = 1
	sharedNumber = 2
	firstNumber  = 16
)

func (k *known) number(e dav.Entry) int64 {
	if e.Virtual {
		if strings.HasPrefix(e.Name, "Spaces") {
			return spacesNumber
		}
		return sharedNumber
	}
	return firstNumber + k.numbers[e.Node]
}

// id is the number and the installation, as clients take it apart.
func (k *known) id(e dav.Entry) string { return idText(k.number(e), k.d.Instance) }

func idText(number int64, instance string) string { return fmt.Sprintf("%08d%s", number, instance) }

// tag is the tag of a file, or of a folder with all that is below it (N1). After a restore every
// folder has another one: what was lost may have had the same numbers.
func (k *known) tag(e dav.Entry) string {
	if !e.IsFolder() {
		return e.Tag()
	}
	tag := k.folderTag(e)
	if k.d.Fingerprint != "" {
		tag += "-" + k.d.Fingerprint
	}
	return `"` + tag + `"`
}

// folderTag is the tag of a folder without what the installation adds to all.
func (k *known) folderTag(e dav.Entry) string {
	at, _ := k.mark(e.Place)
	m := k.folders[e.Node]
	if !e.Virtual && !isHome(e) {
		if at.Rights != "" { // what is hidden from the caller, and what they may do, may be different
			return fmt.Sprintf("f-%x-%x-%s", m.Seq, m.Nodes, at.Rights)
		}
		return fmt.Sprintf("f-%x-%x", m.Seq, m.Nodes)
	}
	// Of whatever the caller sees anywhere: there is no one mark of all that is below the top.
	sum := sha256.New()
	if !e.Virtual {
		fmt.Fprintf(sum, "%x %x\n", m.Seq, m.Nodes)
	}
	for _, place := range slices.Sorted(maps.Keys(k.names)) {
		at, _ := k.mark(place)
		fmt.Fprintf(sum, "%q %q %x %x %s\n", place, k.names[place], at.Top.Seq, at.Top.Nodes, at.Rights)
	}
	return "t-" + hex.EncodeToString(sum.Sum(nil)[:12])
}

// size is that of a file, or of all that is below a folder of the caller's own. How much there is
// in what others share is not told: a part of it may be hidden from the caller.
func (k *known) size(e dav.Entry) int64 {
	if !e.IsFolder() {
		return e.Size
	}
	if e.Place != "" || e.Virtual {
		return 0
	}
	return int64(k.folders[e.Node].Size)
}

// permissions are letters: G read, D delete, N rename, V move, W write a file, C and K create
// files and folders; S it is shared with the caller, M it is where that begins.
func (k *known) permissions(e dav.Entry) string {
	if e.Virtual {
		return "MG"
	}
	rights, letters := access.All, "G"
	if e.Place != "" {
		rights, letters = k.rights[e.Node].Rights, "SG"
	}
	if top := len(e.Path) == 0; top && e.Place != "" {
		letters += "M"
	} else if !top && rights.Has(access.Change) {
		letters += "DNV"
	}
	switch {
	case !e.IsFolder() && rights.Has(access.Change):
		letters += "W"
	case e.IsFolder() && rights.Has(access.Create):
		letters += "CK"
	}
	return letters
}

// shareTypes are the kinds of shares at an entry.
func (k *known) shareTypes(e dav.Entry) string {
	var all strings.Builder
	ways := k.shared[e.Node]
	for _, t := range []struct {
		has  bool
		kind int
	}{{ways.Users, toUser}, {ways.Groups, toGroup}, {ways.Links, byLink}} {
		if t.has {
			fmt.Fprintf(&all, `<oc:share-type>%d</oc:share-type>`, t.kind)
		}
	}
	return all.String()
}

// checksums are those that clients know, of which some may be missing.
func checksums(e dav.Entry) string {
	var all []string
	for _, c := range []struct {
		algo digest.Algo
		name string
	}{{digest.SHA1, "SHA1"}, {digest.SHA256, "SHA256"}, {digest.MD5, "MD5"}} {
		if sum := e.Digests[string(c.algo)]; sum != "" {
			all = append(all, c.name+":"+sum)
		}
	}
	return strings.Join(all, " ")
}

// header adds to the answer about an entry what clients keep of it.
func (d describer) header(ctx context.Context, h http.Header, who drive.Who, e dav.Entry) {
	names := []dav.Name{{Space: owncloud, Local: "id"}, {Space: "DAV:", Local: "getetag"}, {Space: owncloud, Local: "permissions"}}
	prop, err := d.properties(ctx, who, []dav.Entry{e}, names)
	if err != nil { // the client asks by itself then
		return
	}
	id, _ := prop(e, names[0])
	perm, _ := prop(e, names[2])
	tag, folder := prop(e, names[1])
	if !folder {
		tag = e.Tag()
	} else {
		tag = strings.ReplaceAll(tag, "&quot;", `"`)
	}
	h["OC-FileId"], h["OC-ETag"], h["OC-Perm"] = []string{id}, []string{tag}, []string{perm}
}
