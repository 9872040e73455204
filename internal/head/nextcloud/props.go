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

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/head/dav"
	"example.org/smartdrive/internal/usecase/files"
	"example.org/smartdrive/internal/usecase/space"
)

// The namespaces of the properties.
const (
	owncloud  = "http://owncloud.org/ns"
	nextcloud = "http://nextcloud.org/ns"
)

// propertyReader reads the Nextcloud properties of entries, and the response headers about them. It
// serves one request.
type propertyReader struct {
	*call
	places *places
}

// propertyReader returns a reader of Nextcloud properties with an empty cache of places, for one
// request.
func (c *call) propertyReader() propertyReader { return propertyReader{c, &places{}} }

// pageProps holds what has been read from the database about a page of entries.
type pageProps struct {
	d       propertyReader
	numbers map[drive.NodeID]int64
	folders map[drive.NodeID]tree.ChangeTag    // of folders of the page
	marks   map[string]files.PlaceTag          // by place
	names   map[string]drive.Name              // of all spaces and shares; nil unless the page needs them
	rights  map[drive.NodeID]access.NodeRights // of nodes outside of the caller's drive
	owner   string
	stars   map[drive.NodeID]bool
	shared  map[drive.NodeID]space.ShareKinds
}

// properties reads what the named properties of a page of entries need, with a fixed number of
// queries, and returns a lookup: the value of a property of an entry, false if it has none. names
// nil reads only what entity tags and sizes need. It fails with the error of a query.
func (d propertyReader) properties(ctx context.Context, who drive.Who, page []dav.Entry, names []dav.Name) (func(dav.Entry, dav.Name) (string, bool), error) {
	k := pageProps{d: d, rights: map[drive.NodeID]access.NodeRights{}}
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

// readShared reads which kinds of shares the page's entries have. It leaves out entries that the
// caller may not share: those of others that the caller does not manage.
func (p *pageProps) readShared(ctx context.Context, page []dav.Entry) (map[drive.NodeID]space.ShareKinds, error) {
	var ids []drive.NodeID
	for _, e := range page {
		if !e.Virtual && (e.Place == "" || p.rights[e.Node].Rights.Has(access.Manage)) {
			ids = append(ids, e.Node)
		}
	}
	return p.d.Spaces.ShareKinds(ctx, ids)
}

// places caches the spaces and shares of the caller, and their change marks, for all pages of a
// listing. Cached marks may be older than later pages; that only makes a client list again.
type places struct {
	names map[string]drive.Name // of all places that the caller sees; nil: not read
	marks map[string]files.PlaceTag
}

// read reads the places of the caller and their change marks, with a constant number of statements.
// It sets l.marks and, on success, l.names. It fails with the error of a query.
func (l *places) read(ctx context.Context, d propertyReader, who drive.Who) error {
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
	for place := range tops { // a place without a mark is not listed either
		if _, seen := l.marks[place]; !seen {
			delete(names, place)
		}
	}
	if err == nil {
		l.names = names
	}
	return err
}

// marksOf returns the change marks of places, by place. tops maps each place to its root node.
// Places that the caller may not see are left out. Without tops the result is nil. It fails with
// the error of a query.
func (d propertyReader) marksOf(ctx context.Context, who drive.Who, tops map[string]drive.NodeID) (map[string]files.PlaceTag, error) {
	if len(tops) == 0 {
		return nil, nil
	}
	found, err := d.tags.Tops(ctx, who, slices.Collect(maps.Values(tops)))
	marks := make(map[string]files.PlaceTag, len(found))
	for place, top := range tops {
		if m, seen := found[top]; seen {
			marks[place] = m
		}
	}
	return marks, err
}

// readMarks reads the change marks of the page's folders and of the places that they are in; the
// tags of folders are made of them (see folderTag). The root and the folders of the layout need the
// marks of all places. It fills p.folders and p.marks, and fails with the error of a query.
func (p *pageProps) readMarks(ctx context.Context, who drive.Who, page []dav.Entry) error {
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
	if p.folders, err = p.d.tags.Folders(ctx, folders); err != nil {
		return err
	}
	places := p.d.places
	if all && places.names == nil {
		if err := places.read(ctx, p.d, who); err != nil {
			return err
		}
	}
	if all {
		p.names = places.names
	}
	maps.DeleteFunc(tops, func(place string, _ drive.NodeID) bool { _, known := places.marks[place]; return known })
	if p.marks, err = p.d.marksOf(ctx, who, tops); err != nil {
		return err
	}
	for place := range listed {
		if _, known := p.mark(place); known {
			continue
		}
		m, err := p.d.tags.Place(ctx, who, place)
		if err != nil { // without a mark the folder's tag would never change
			return err
		}
		if p.marks == nil {
			p.marks = map[string]files.PlaceTag{}
		}
		p.marks[place] = m
	}
	return nil
}

// mark returns the change mark of a place, from the page or the cache; false if it was not read.
func (p *pageProps) mark(place string) (files.PlaceTag, bool) {
	if m, known := p.marks[place]; known {
		return m, true
	}
	m, known := p.d.places.marks[place]
	return m, known
}

// isHome reports whether an entry is the root of the caller's own drive.
func isHome(e dav.Entry) bool { return !e.Virtual && e.Place == "" && len(e.Path) == 0 }

// layoutTime is the constant modification time of folders of the layout.
const layoutTime = "Sat, 01 Jan 2000 00:00:00 GMT"

// property returns the value of a property of e as XML, and whether the entry has it. properties
// must have read the page with this name.
func (p *pageProps) property(e dav.Entry, n dav.Name) (string, bool) {
	switch n.Space {
	case "DAV:":
		switch n.Local {
		case "getetag":
			if e.IsFolder() {
				return escape(p.tag(e)), true
			}
		case "getcontentlength": // some clients take a folder without a size for broken
			if e.IsFolder() {
				return strconv.FormatInt(p.size(e), 10), true
			}
		case "getlastmodified": // desktop clients refuse a folder without a time
			return layoutTime, e.Virtual
		}
		return "", false
	case owncloud:
		return p.ownCloudProperty(e, n.Local)
	case nextcloud:
		return p.nextcloudProperty(e, n.Local)
	}
	return "", false
}

// ownCloudProperty returns a property in ownCloud's namespace, and whether the entry has it.
func (p *pageProps) ownCloudProperty(e dav.Entry, local string) (string, bool) {
	switch local {
	case "id":
		return escape(p.id(e)), true
	case "fileid":
		return strconv.FormatInt(p.number(e), 10), true
	case "permissions":
		return p.permissions(e), true
	case "size":
		return strconv.FormatInt(p.size(e), 10), true
	case "checksums":
		sums := checksums(e)
		return "<oc:checksum>" + escape(sums) + "</oc:checksum>", sums != ""
	case "favorite":
		if p.stars[e.Node] && !e.Virtual {
			return "1", true
		}
		return "0", true
	case "comments-unread":
		return "0", true
	case "owner-id", "owner-display-name":
		return escape(p.owner), e.Place == ""
	case "share-types":
		return p.shareTypes(e), true
	case "tags":
		return "", true
	case "data-fingerprint": // any folder may be a client's root; the empty fingerprint is valid
		return escape(p.d.Fingerprint), e.IsFolder()
	}
	return "", false
}

// nextcloudProperty returns a property in Nextcloud's namespace, and whether the entry has it.
func (p *pageProps) nextcloudProperty(e dav.Entry, local string) (string, bool) {
	switch local {
	case "has-preview":
		return strconv.FormatBool(!e.IsFolder() && p.d.Thumbs.Draws(e.Mime)), true
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

// The numbers of the folders of the layout. Numbers of nodes begin at firstNumber.
const (
	spacesNumber = 1
	sharedNumber = 2
	firstNumber  = 16
)

// number returns the number by which the protocol identifies an entry (oc:fileid). Folders of the
// layout have fixed numbers.
func (p *pageProps) number(e dav.Entry) int64 {
	if e.Virtual {
		if strings.HasPrefix(e.Name, "Spaces") {
			return spacesNumber
		}
		return sharedNumber
	}
	return firstNumber + p.numbers[e.Node]
}

// id returns the id of an entry that is unique among installations (oc:id); see idText.
func (p *pageProps) id(e dav.Entry) string { return idText(p.number(e), p.d.Instance) }

// idText returns the file id that clients see: the number padded to 8 digits, then the instance.
func idText(number int64, instance string) string { return fmt.Sprintf("%08d%s", number, instance) }

// tag returns the ETag of a file, or of a folder, which changes with everything below it (N1), with
// its quotes. That of every folder changes after a restore of a backup, because lost changes may
// have had the same sequence numbers.
func (p *pageProps) tag(e dav.Entry) string {
	if !e.IsFolder() {
		return e.Tag()
	}
	tag := p.folderTag(e)
	if p.d.Fingerprint != "" {
		tag += "-" + p.d.Fingerprint
	}
	return `"` + tag + `"`
}

// folderTag returns the tag of a folder without the fingerprint. It changes with the folder's
// nodes; that of a root or layout folder changes with every place that the caller sees.
func (p *pageProps) folderTag(e dav.Entry) string {
	at, _ := p.mark(e.Place)
	m := p.folders[e.Node]
	if !e.Virtual && !isHome(e) {
		if at.Rights != "" { // permissions and hidden entries affect the listing
			return fmt.Sprintf("f-%x-%x-%s", m.Seq, m.Nodes, at.Rights)
		}
		return fmt.Sprintf("f-%x-%x", m.Seq, m.Nodes)
	}
	// The root and the folders of the layout depend on all places, which have no common mark.
	sum := sha256.New()
	if !e.Virtual {
		fmt.Fprintf(sum, "%x %x\n", m.Seq, m.Nodes)
	}
	for _, place := range slices.Sorted(maps.Keys(p.names)) {
		at, _ := p.mark(place)
		fmt.Fprintf(sum, "%q %q %x %x %s\n", place, p.names[place], at.Top.Seq, at.Top.Nodes, at.Rights)
	}
	return "t-" + hex.EncodeToString(sum.Sum(nil)[:12])
}

// size returns the size in bytes of a file, or of everything below a folder of the caller's own
// drive. It is 0 for other folders, because parts of them may be hidden from the caller.
func (p *pageProps) size(e dav.Entry) int64 {
	if !e.IsFolder() {
		return e.Size
	}
	if e.Place != "" || e.Virtual {
		return 0
	}
	return int64(p.folders[e.Node].Size)
}

// permissions returns letters: G read, D delete, N rename, V move, W write a file, C and K create
// files and folders, S shared with the caller, M root of a share.
func (p *pageProps) permissions(e dav.Entry) string {
	if e.Virtual {
		return "MG"
	}
	rights, letters := access.All, "G"
	if e.Place != "" {
		rights, letters = p.rights[e.Node].Rights, "SG"
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

// shareTypes returns the kinds of shares at an entry as XML.
func (p *pageProps) shareTypes(e dav.Entry) string {
	var all strings.Builder
	ways := p.shared[e.Node]
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

// checksums returns the known digests in the clients' format; "" if there is none.
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

// header adds the headers about an entry that clients store: id, ETag and permissions. If they
// cannot be read, it adds none; the client then requests the properties itself.
func (d propertyReader) header(ctx context.Context, h http.Header, who drive.Who, e dav.Entry) {
	names := []dav.Name{{Space: owncloud, Local: "id"}, {Space: "DAV:", Local: "getetag"}, {Space: owncloud, Local: "permissions"}}
	prop, err := d.properties(ctx, who, []dav.Entry{e}, names)
	if err != nil { // the client requests the properties itself
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
