package dav

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/property"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/usecase/files"
)

// propertyChange is one property that a PROPPATCH sets or removes.
type propertyChange struct {
	name   Name
	remove bool
	value  element
}

// readPropertyChanges parses the body of a PROPPATCH in its order (RFC 4918 §9.2). It fails with
// drive.BadRequest or drive.TooLarge.
func readPropertyChanges(r *http.Request) ([]propertyChange, error) {
	root, found, err := readBody(r)
	if err != nil {
		return nil, err
	}
	if !found || root.Name != dav("propertyupdate") {
		return nil, drive.BadField("body", drive.Malformed, "expected", "propertyupdate")
	}
	var all []propertyChange
	for _, group := range root.Children {
		if group.Name != dav("set") && group.Name != dav("remove") {
			continue
		}
		for _, prop := range group.Children {
			if prop.Name != dav("prop") {
				continue
			}
			for _, e := range prop.Children {
				all = append(all, propertyChange{name: e.Name, remove: group.Name == dav("remove"), value: e})
			}
		}
	}
	if len(all) > maxNames {
		return nil, drive.Fail(drive.TooLarge, "field", "body", "limit", maxNames, "sent", len(all))
	}
	if len(all) == 0 {
		return nil, drive.BadField("body", drive.Malformed, "expected", "set or remove")
	}
	return all, nil
}

// proppatch handles PROPPATCH, which is executed completely or not at all. retryStale repeats it
// when the node changed meanwhile. It fails with drive.BadRequest for a malformed body.
func (c *call) proppatch(ctx context.Context) error {
	all, err := readPropertyChanges(c.r)
	if err != nil {
		return err
	}
	return retryStale(ctx, c, func(c *call, ctx context.Context) error { return patch(ctx, c, all) })
}

// patch executes a PROPPATCH and answers it. If one property is refused nothing is written, and the
// answer is a 207 that tells the status of each. With Prefer: return=minimal success is 204.
func patch(ctx context.Context, c *call, all []propertyChange) error {
	e, err := c.find(ctx, c.at)
	if err != nil {
		return err
	}
	if e.Virtual {
		return refuseLayout()
	}
	if err := c.conditions(ctx, &e); err != nil {
		return err
	}
	if slices.ContainsFunc(all, func(in propertyChange) bool { return !c.isOwnProperty(in) }) { // a lock protects the file, not the caller's own marks
		if err := c.checkUnlocked(ctx, e, false); err != nil {
			return err
		}
	}
	wish := c.prefer()
	out := newMultistatus(c)
	refused := map[Name]int{}
	for _, in := range all {
		switch _, isTime := in.mtime(); {
		case isTime:
		case isLive(in.name):
			refused[in.name] = http.StatusForbidden
		case in.name == dav("lastmodified") && !in.remove: // an invalid time: the property sets the mtime and is not stored itself
			refused[in.name] = http.StatusConflict
		}
	}
	if len(refused) == 0 {
		if err := c.apply(ctx, e, all); err != nil {
			return err
		}
		if wish.minimal {
			return c.respondChanged(false)
		}
	}
	c.respondPatch(out, e, all, refused)
	return nil
}

// respondPatch sends the 207 of a PROPPATCH. refused holds the status 403 or 409 by property; if it
// is not empty, all others get 424.
func (c *call) respondPatch(out *multistatus, e Entry, all []propertyChange, refused map[Name]int) {
	out.begin()
	out.openResponse(e.href)
	var ok, no, wrong, dependent []prop
	seen := map[Name]bool{}
	for _, in := range all {
		p := prop{name: in.name}
		switch {
		case seen[in.name]:
		case refused[in.name] == http.StatusForbidden:
			no = append(no, p)
		case refused[in.name] != 0:
			wrong = append(wrong, p)
		case len(refused) > 0:
			dependent = append(dependent, p)
		default:
			ok = append(ok, p)
		}
		seen[in.name] = true
	}
	if len(ok) > 0 {
		out.propstat(http.StatusOK, ok, "")
	}
	if len(no) > 0 {
		out.propstat(http.StatusForbidden, no, "cannot-modify-protected-property")
	}
	if len(wrong) > 0 {
		out.propstat(http.StatusConflict, wrong, "")
	}
	if len(dependent) > 0 {
		out.propstat(http.StatusFailedDependency, dependent, "")
	}
	out.closeResponse()
	out.end()
}

// isOwnProperty reports whether the view, not this package, stores the property (View.Sets).
func (c *call) isOwnProperty(in propertyChange) bool {
	return c.view.Sets != nil && c.view.Sets(in.name)
}

// apply writes the changes of a PROPPATCH. First it writes stored properties and the modification
// time in one transaction, which fails as stale if the node changed. Then it writes the view's own
// properties (View.Sets) one by one; if one fails, the earlier writes remain. Too many properties
// fail with status 507.
func (c *call) apply(ctx context.Context, e Entry, all []propertyChange) error {
	mtime := drive.Time(0)
	var changes []property.Change
	for _, in := range all {
		if c.isOwnProperty(in) {
			continue
		}
		if t, ok := in.mtime(); ok {
			mtime = t
			continue
		}
		changes = append(changes, property.Change{
			Property: property.Property{Name: property.Name{Space: in.name.Space, Local: in.name.Local}, Value: in.value.Inner}, Remove: in.remove,
		})
	}
	if len(changes) > 0 || mtime != 0 {
		if err := expectAt(ctx, c, c.at, &e, tree.SeenNode{}); err != nil {
			return err
		}
		err := c.marks.SetProperties(ctx, c.who, e.Node, files.PropertyPatch{MTime: mtime, Changes: changes, Expect: c.expect})
		if drive.IsKind(err, drive.TooLarge) { // RFC 4918 §9.2.1
			err = condition{err, http.StatusInsufficientStorage, "", ""}
		}
		if err != nil {
			return err
		}
	}
	for _, in := range all { // last, because these cannot be rolled back
		if c.isOwnProperty(in) {
			if err := c.view.Set(ctx, e, in.name, strings.TrimSpace(in.value.Text), in.remove); err != nil {
				return err
			}
		}
	}
	return nil
}

// mtime returns the modification time that a change sets: by Windows' property, or by those
// that clients of other servers use, also in Unix seconds. ok is false for other properties and
// invalid times.
func (in propertyChange) mtime() (drive.Time, bool) {
	if in.remove {
		return 0, false
	}
	text := strings.TrimSpace(in.value.Text)
	switch in.name {
	case win("Win32LastModifiedTime"), dav("getlastmodified"), dav("lastmodified"):
	default:
		return 0, false
	}
	for _, form := range []string{http.TimeFormat, time.RFC1123, time.RFC1123Z, time.RFC850, time.ANSIC, time.RFC3339} {
		if t, err := time.Parse(form, text); err == nil {
			return drive.TimeOf(t), true
		}
	}
	t, err := ParseMTime(text)
	return t, err == nil && t != 0
}
