package dav

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"smartdrive/internal/base/digest"
	"smartdrive/internal/base/drive"
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
		dav("getcontentlength"), dav("getcontenttype"),
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
	balances map[string]*quota.Balance // by place; nil: nobody tells
}

func (c *call) describer(want asked, minimal bool) *describer {
	return &describer{call: c, want: want, minimal: minimal, balances: map[string]*quota.Balance{}}
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
	names := d.want.names
	if d.want.all() {
		names = always()
	}
	for _, e := range entries {
		var found, missing []property
		for _, name := range names {
			inner, ok := further(e, name)
			if !ok {
				var err error
				if inner, ok, err = d.live(ctx, e, name); err != nil {
					return err
				}
			}
			switch {
			case ok && d.want.onlyName:
				found = append(found, property{name: name})
			case ok:
				found = append(found, property{name, inner})
			case !d.want.all():
				missing = append(missing, property{name: name})
			}
		}
		out.response(e.href, found, missing, d.minimal)
	}
	return nil
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

// Tag is the ETag of a file, with its quotes: that of its content, as in the native API.
func (e Entry) Tag() string {
	sum, ok := e.Digests[string(digest.Blake3)]
	if !ok {
		return fmt.Sprintf(`"r-%s-%d"`, e.ID, e.Rev)
	}
	return `"b3-` + sum + `"`
}

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
