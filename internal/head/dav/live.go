package dav

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"smartdrive/internal/base/digest"
	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/lock"
	"smartdrive/internal/domain/property"
	"smartdrive/internal/domain/quota"
)

// windows is the namespace of the properties by which Windows keeps times and attributes.
const windows = "urn:schemas-microsoft-com:"

func win(local string) Name { return Name{Space: windows, Local: local} }

// always are the live properties that allprop answers (RFC 4918 §14.2, §15), in the order in which
// they are sent.
func always() []Name {
	return []Name{
		dav("resourcetype"), dav("displayname"), dav("creationdate"), dav("getlastmodified"), dav("getetag"),
		dav("getcontentlength"), dav("getcontenttype"), dav("supportedlock"), dav("lockdiscovery"),
	}
}

// onDemand are live properties that only who names them gets: they cost more, or RFCs ask for it
// (RFC 4331 §3, RFC 3744 §5.1).
func onDemand() []Name {
	return []Name{
		dav("quota-available-bytes"), dav("quota-used-bytes"), dav("current-user-principal"), win("Win32LastModifiedTime"),
	}
}

// isLive reports whether a property is computed: nobody can set or remove it.
func isLive(n Name) bool { return slices.Contains(always(), n) || slices.Contains(onDemand(), n) }

// describer writes entries.
type describer struct {
	*call

	want     asked
	minimal  bool
	top      Entry                     // that the request is about
	balances map[string]*quota.Balance // by place; nil: nobody tells
	held     map[drive.NodeID][]lock.Lock
	above    []lock.Lock // deep ones that hold at top, and so at what is in it
}

func (c *call) describer(want asked, minimal bool, top Entry) *describer {
	return &describer{call: c, want: want, minimal: minimal, top: top, balances: map[string]*quota.Balance{}}
}

// page writes some entries. What they need of the database beside themselves is read at once.
func (d *describer) page(ctx context.Context, out *multistatus, entries []Entry) error {
	if len(entries) == 0 {
		return nil
	}
	further := func(Entry, Name) (string, bool) { return "", false }
	if d.view.Properties != nil {
		var err error
		if further, err = d.view.Properties(ctx, d.who, entries, d.want.names); err != nil {
			return err
		}
	}
	dead, err := d.dead(ctx, entries)
	if err != nil {
		return err
	}
	names := d.want.names
	if d.want.all() {
		names = always()
	}
	if slices.Contains(names, dav("lockdiscovery")) && !d.want.onlyName {
		if err := d.readLocks(ctx, entries); err != nil {
			return err
		}
	}
	for _, e := range entries {
		var found, missing []prop
		for _, name := range names {
			inner, ok := further(e, name)
			if !ok {
				if inner, ok, err = d.live(ctx, e, name); err != nil {
					return err
				}
			}
			if !ok {
				inner, ok = find(dead[e.Node], name)
			}
			switch {
			case ok && d.want.onlyName:
				found = append(found, prop{name: name})
			case ok:
				found = append(found, prop{name, inner})
			case !d.want.all():
				missing = append(missing, prop{name: name})
			}
		}
		if d.want.all() {
			for _, p := range dead[e.Node] {
				q := prop{name: Name{Space: p.Space, Local: p.Local}}
				if !d.want.onlyName {
					q.inner = p.Value
				}
				found = append(found, q)
			}
		}
		out.response(e.href, found, missing, d.minimal)
	}
	return nil
}

// dead reads what clients have said of the entries, unless nothing but live properties is wanted.
func (d *describer) dead(ctx context.Context, entries []Entry) (map[drive.NodeID][]property.Property, error) {
	wanted := d.want.all()
	for _, name := range d.want.names {
		wanted = wanted || name.Space != "DAV:" && name != win("Win32LastModifiedTime") && !strings.HasPrefix(name.Space, "http://owncloud.org/") &&
			!strings.HasPrefix(name.Space, "http://nextcloud.")
	}
	if !wanted {
		return nil, nil
	}
	found, err := d.marks.Properties(ctx, d.who, nodesOf(entries))
	for node, all := range found {
		found[node] = writable(all)
	}
	return found, err
}

func find(all []property.Property, name Name) (string, bool) {
	for _, p := range all {
		if p.Space == name.Space && p.Local == name.Local {
			return p.Value, true
		}
	}
	return "", false
}

// readLocks reads the locks on a page of entries, and once the deep ones that hold at the address
// of the request, and so at what is in it.
func (d *describer) readLocks(ctx context.Context, entries []Entry) error {
	if d.held == nil && !d.top.Virtual {
		all, err := d.marks.LocksAt(ctx, d.who, d.top.Node, false)
		if err != nil {
			return err
		}
		d.above = slices.DeleteFunc(all, func(l lock.Lock) bool { return !l.Deep })
	}
	all, err := d.marks.LocksOn(ctx, nodesOf(entries))
	if err != nil {
		return err
	}
	d.held = map[drive.NodeID][]lock.Lock{}
	for _, l := range all {
		d.held[l.Node] = append(d.held[l.Node], l)
	}
	return nil
}

// nodesOf are the nodes of entries.
func nodesOf(entries []Entry) []drive.NodeID {
	ids := make([]drive.NodeID, 0, len(entries))
	for _, e := range entries {
		if !e.Virtual {
			ids = append(ids, e.Node)
		}
	}
	return ids
}

// lockdiscovery is what holds at an entry: its own locks, and the deep ones above.
func (d *describer) lockdiscovery(ctx context.Context, e Entry) (string, error) {
	if e.Virtual {
		return "", nil
	}
	own := d.held[e.Node]
	for _, l := range d.above {
		if l.Node != e.Node {
			own = append(slices.Clip(own), l)
		}
	}
	return d.discovery(ctx, e, own)
}

// live computes a property of an entry.
func (d *describer) live(ctx context.Context, e Entry, name Name) (inner string, ok bool, err error) {
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
		inner, err := d.lockdiscovery(ctx, e)
		return inner, err == nil, err
	case "current-user-principal":
		return "<D:href>" + d.href(nil, true) + "</D:href>", true, nil
	case "quota-available-bytes", "quota-used-bytes":
		b, err := d.balance(ctx, e)
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

// display is the name that people see.
func (e Entry) display() string {
	if e.Name == "" {
		return "SmartDrive"
	}
	return e.Name
}

// Tag is the ETag of a file, with its quotes; see tagOf.
func (e Entry) Tag() string {
	sum, ok := e.Digests[string(digest.Blake3)]
	if !ok {
		return fmt.Sprintf(`"r-%s-%d"`, e.ID, e.Rev)
	}
	return tagOf(sum)
}

// tagOf is the ETag of a content: the first half of its BLAKE3. That of the native API, which is
// all of it, is longer than what some clients make room for in an If header.
func tagOf(blake3 string) string { return `"` + blake3[:min(len(blake3), 32)] + `"` }

// balance is the ledger of the account that an entry is in; nil where the caller has no business
// with it.
func (d *describer) balance(ctx context.Context, e Entry) (*quota.Balance, error) {
	if known, ok := d.balances[e.Place]; ok {
		return known, nil
	}
	account, err := d.opt.Files.Account(ctx, d.who, e.Place)
	if drive.IsKind(err, drive.NotFound, drive.Forbidden) {
		d.balances[e.Place] = nil
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	b, err := d.opt.Balance(ctx, account)
	if err != nil {
		return nil, err
	}
	d.balances[e.Place] = &b
	return &b, nil
}

func httpTime(t drive.Time) string { return t.Std().UTC().Format(http.TimeFormat) }
