package dav

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/lock"
	"example.org/smartdrive/internal/domain/property"
	"example.org/smartdrive/internal/domain/quota"
)

// windows is the namespace of Windows' properties for times and attributes.
const windows = "urn:schemas-microsoft-com:"

// win returns a property name in the namespace of Windows clients.
func win(local string) Name { return Name{Space: windows, Local: local} }

// allpropNames returns the live properties that allprop includes (RFC 4918 §14.2, §15), in the
// order of the response.
func allpropNames() []Name {
	return []Name{
		dav("resourcetype"), dav("displayname"), dav("creationdate"), dav("getlastmodified"), dav("getetag"),
		dav("getcontentlength"), dav("getcontenttype"), dav("supportedlock"), dav("lockdiscovery"),
	}
}

// namedOnlyProps returns the live properties that are sent only if named: they are expensive, or an
// RFC requires it (RFC 4331 §3, RFC 3744 §5.1).
func namedOnlyProps() []Name {
	return []Name{
		dav("quota-available-bytes"), dav("quota-used-bytes"), dav("current-user-principal"), win("Win32LastModifiedTime"),
	}
}

// isLive reports whether a property is computed, so that clients cannot change it.
func isLive(n Name) bool {
	return slices.Contains(allpropNames(), n) || slices.Contains(namedOnlyProps(), n)
}

// entryWriter writes the properties of entries to a 207 response. It serves one request.
type entryWriter struct {
	*call

	wanted   wantedProps
	minimal  bool
	top      Entry                     // entry of the request's URL
	balances map[string]*quota.Balance // by place; nil: the caller may not see it
	// held caches the locks of nodes that were looked up.
	held  map[drive.NodeID][]lock.Lock
	above []lock.Lock // deep locks on top or above, which apply to its children
}

// entryWriter returns a writer for the entries of one response. top is the entry of the request's
// URL. With minimal, the writer leaves out properties that an entry does not have. It caches quotas
// and locks, so it must not outlive the request.
func (c *call) entryWriter(want wantedProps, minimal bool, top Entry) *entryWriter {
	return &entryWriter{call: c, wanted: want, minimal: minimal, top: top, balances: map[string]*quota.Balance{}}
}

// writePage writes the requested properties of a page of entries to out. It reads what they need
// from the database once per page. An error of this reading is returned before anything of the page
// is written; an error of a single property may leave some entries of the page written.
func (w *entryWriter) writePage(ctx context.Context, out *multistatus, entries []Entry) error {
	if len(entries) == 0 {
		return nil
	}
	further := func(Entry, Name) (string, bool) { return "", false }
	if w.view.Properties != nil {
		var err error
		if further, err = w.view.Properties(ctx, w.who, entries, w.wanted.names); err != nil {
			return err
		}
	}
	dead, err := w.dead(ctx, entries)
	if err != nil {
		return err
	}
	names := w.wanted.names
	if w.wanted.all() {
		names = allpropNames()
	}
	if slices.Contains(names, dav("lockdiscovery")) && !w.wanted.onlyName {
		if err := w.readLocks(ctx, entries); err != nil {
			return err
		}
	}
	for _, e := range entries {
		var found, missing []prop
		for _, name := range names {
			inner, ok := further(e, name)
			if !ok {
				if inner, ok, err = w.live(ctx, e, name); err != nil {
					return err
				}
			}
			if !ok {
				inner, ok = find(dead[e.Node], name)
			}
			switch {
			case ok && w.wanted.onlyName:
				found = append(found, prop{name: name})
			case ok:
				found = append(found, prop{name, inner})
			case !w.wanted.all():
				missing = append(missing, prop{name: name})
			}
		}
		if w.wanted.all() {
			for _, p := range dead[e.Node] {
				q := prop{name: Name{Space: p.Space, Local: p.Local}}
				if !w.wanted.onlyName {
					q.inner = p.Value
				}
				found = append(found, q)
			}
		}
		out.response(e.href, found, missing, w.minimal)
	}
	return nil
}

// dead returns the properties that clients have stored on entries (dead properties, RFC 4918 §4),
// by node. If only computed properties are requested, it reads nothing and returns nil.
func (w *entryWriter) dead(ctx context.Context, entries []Entry) (map[drive.NodeID][]property.Property, error) {
	wanted := w.wanted.all()
	for _, name := range w.wanted.names {
		wanted = wanted || name.Space != "DAV:" && name != win("Win32LastModifiedTime") && !strings.HasPrefix(name.Space, "http://owncloud.org/") &&
			!strings.HasPrefix(name.Space, "http://nextcloud.")
	}
	if !wanted {
		return nil, nil
	}
	found, err := w.marks.Properties(ctx, w.who, nodesOf(entries))
	for node, all := range found {
		found[node] = writable(all)
	}
	return found, err
}

// find returns the value of the named property; false if all does not contain it.
func find(all []property.Property, name Name) (string, bool) {
	for _, p := range all {
		if p.Space == name.Space && p.Local == name.Local {
			return p.Value, true
		}
	}
	return "", false
}

// readLocks reads the locks on a page of entries and, once, the deep locks that apply at the
// request's URL. It replaces w.held; w.above stays once read.
func (w *entryWriter) readLocks(ctx context.Context, entries []Entry) error {
	if w.held == nil && !w.top.Virtual {
		all, err := w.marks.LocksAt(ctx, w.who, w.top.Node, false)
		if err != nil {
			return err
		}
		w.above = slices.DeleteFunc(all, func(l lock.Lock) bool { return !l.Deep })
	}
	all, err := w.marks.LocksOn(ctx, nodesOf(entries))
	if err != nil {
		return err
	}
	w.held = map[drive.NodeID][]lock.Lock{}
	for _, l := range all {
		w.held[l.Node] = append(w.held[l.Node], l)
	}
	return nil
}

// nodesOf returns the nodes of entries that are not virtual.
func nodesOf(entries []Entry) []drive.NodeID {
	ids := make([]drive.NodeID, 0, len(entries))
	for _, e := range entries {
		if !e.Virtual {
			ids = append(ids, e.Node)
		}
	}
	return ids
}

// lockdiscovery renders the locks that apply at an entry: its own, and the deep locks on the
// folders above. readLocks must have read the entry's page. A folder of the layout has none.
func (w *entryWriter) lockdiscovery(ctx context.Context, e Entry) (string, error) {
	if e.Virtual {
		return "", nil
	}
	own := w.held[e.Node]
	for _, l := range w.above {
		if l.Node != e.Node {
			own = append(slices.Clip(own), l)
		}
	}
	return w.discovery(ctx, e, own)
}

// live computes a live property of an entry as XML. ok is false if the entry does not have the
// property or this package does not compute it.
func (w *entryWriter) live(ctx context.Context, e Entry, name Name) (inner string, ok bool, err error) {
	if name.Space == windows {
		if name.Local == "Win32LastModifiedTime" && !e.Virtual {
			return httpTime(e.MTime), true, nil
		}
		return "", false, nil
	}
	if name.Space != "DAV:" {
		return "", false, nil
	}
	folder := e.IsFolder()
	switch name.Local {
	case "resourcetype":
		if folder {
			return "<D:collection/>", true, nil
		}
		return "", true, nil
	case "displayname":
		return escape(e.display()), true, nil
	case "creationdate":
		return e.CreatedAt.Std().UTC().Format(time.RFC3339), !e.Virtual, nil
	case "getlastmodified":
		return httpTime(e.MTime), !e.Virtual, nil
	case "getetag":
		return escape(e.Tag()), !folder, nil
	case "getcontentlength":
		return strconv.FormatInt(e.Size, 10), !folder, nil
	case "getcontenttype":
		return escape(e.Mime), !folder, nil
	case "supportedlock":
		const entry = "<D:lockentry><D:lockscope><D:%s/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockentry>"
		if e.Virtual {
			return "", true, nil
		}
		return fmt.Sprintf(entry+entry, "exclusive", "shared"), true, nil
	case "lockdiscovery":
		inner, err := w.lockdiscovery(ctx, e)
		return inner, err == nil, err
	case "current-user-principal":
		return "<D:href>" + w.href(nil, true) + "</D:href>", true, nil
	case "quota-available-bytes", "quota-used-bytes":
		b, err := w.balance(ctx, e)
		if b == nil || err != nil || !folder {
			return "", false, err
		}
		if name.Local == "quota-used-bytes" {
			return strconv.FormatInt(int64(b.Used()), 10), true, nil
		}
		return strconv.FormatInt(int64(b.Available()), 10), true, nil
	}
	return "", false, nil
}

// display returns the name for the property displayname; "SmartDrive" for the root.
func (e Entry) display() string {
	if e.Name == "" {
		return "SmartDrive"
	}
	return e.Name
}

// Tag returns the ETag of a file, with its quotes: half of its BLAKE3 digest, or without a stored
// digest a tag of the node's id and revision. Folders have no ETag; do not call it for them.
func (e Entry) Tag() string {
	sum, ok := e.Digests[string(digest.Blake3)]
	if !ok {
		return fmt.Sprintf(`"r-%s-%d"`, e.ID, e.Rev)
	}
	return tagOf(sum)
}

// tagOf returns the ETag of content whose BLAKE3 digest in hexadecimal is blake3: its first half,
// in quotes. The full digest, which the native API uses, is too long for some clients' If headers.
func tagOf(blake3 string) string { return `"` + blake3[:min(len(blake3), 32)] + `"` }

// balance returns the quota and usage of the account that an entry belongs to; nil if the caller
// may not see it. It caches the result in w.balances.
func (w *entryWriter) balance(ctx context.Context, e Entry) (*quota.Balance, error) {
	if known, ok := w.balances[e.Place]; ok {
		return known, nil
	}
	account, err := w.opt.Files.Account(ctx, w.who, e.Place)
	if drive.IsKind(err, drive.NotFound, drive.Forbidden) {
		w.balances[e.Place] = nil
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	b, err := w.opt.Balance(ctx, account)
	if err != nil {
		return nil, err
	}
	w.balances[e.Place] = &b
	return &b, nil
}

// httpTime formats a time as an HTTP date (RFC 9110 §5.6.7).
func httpTime(t drive.Time) string { return t.Std().UTC().Format(http.TimeFormat) }
