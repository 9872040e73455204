package nextcloud

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/head/server"
	"example.org/smartdrive/internal/usecase/files"
	"example.org/smartdrive/internal/usecase/share"
	"example.org/smartdrive/internal/usecase/space"
)

// sharingPath is the path of the sharing API below /ocs/v1.php/ and /ocs/v2.php/.
const sharingPath = "apps/files_sharing/api/v1/"

// The kinds of shares in the protocol.
const (
	toUser  = 0
	toGroup = 1
	byLink  = 3
)

// sharingCapabilities returns the section files_sharing of the capabilities.
func sharingCapabilities() object {
	off := object{{"enabled", false}}
	on := object{{"enabled", true}}
	return object{
		{"api_enabled", true},
		{"public", object{
			{"enabled", true},
			{"password", object{{"enforced", false}, {"askForOptionalPassword", false}}},
			{"expire_date", off},
			{"multiple_links", true},
			{"send_mail", false},
			{"upload", false},
			{"upload_files_drop", false},
			{"custom_tokens", false},
		}},
		{"resharing", false},
		{"default_permissions", permitsAll &^ permitsShare},
		{"user", object{{"send_mail", false}, {"expire_date", on}}},
		{"group_sharing", true},
		{"group", object{{"enabled", true}, {"expire_date", on}}},
		{"federation", object{{"outgoing", false}, {"incoming", false}, {"expire_date", off}}},
		{"sharebymail", off},
		{"sharee", object{{"query_lookup_default", false}, {"always_show_unique", false}}},
	}
}

// sharing handles a request of the sharing API.
type sharing struct{ *call }

// answer executes the request at a path below sharingPath and returns its data. Unsupported lists
// are empty. It fails with drive.NotFound for an unknown path or share and with drive.Method.
func (c sharing) answer(ctx context.Context, what string) (any, error) {
	switch {
	case what == "shares" && c.r.Method == http.MethodGet:
		return c.listShares(ctx)
	case what == "shares" && c.r.Method == http.MethodPost:
		return c.createShare(ctx)
	case what == "sharees" && c.r.Method == http.MethodGet:
		return c.sharees(ctx)
	case what == "sharees_recommended" && c.r.Method == http.MethodGet:
		return foundSharees(nil, ""), nil
	case c.r.Method == http.MethodGet && slices.Contains([]string{"shares/pending", "shares/inherited", "deletedshares", "remote_shares", "remote_shares/pending"}, what):
		return list{}, nil
	}
	text, one := strings.CutPrefix(what, "shares/")
	number, err := strconv.ParseInt(text, 10, 64)
	if !one || err != nil {
		return nil, drive.Fail(drive.NotFound)
	}
	switch c.r.Method {
	case http.MethodGet:
		s, err := c.findShare(ctx, number)
		if err != nil {
			return nil, err
		}
		return c.showShares(ctx, []shared{s})
	case http.MethodPut:
		return c.changeShare(ctx, number)
	case http.MethodDelete:
		return list{}, c.deleteShare(ctx, number)
	}
	return nil, c.methodNotAllowed(http.MethodGet, http.MethodPut, http.MethodDelete)
}

// maxSharingForm bounds the body of a change in bytes: a note of 1,000 bytes, escaped twice, and
// the other fields.
const maxSharingForm = 16 << 10

// form returns the parameters of a request, from its URL and its body as a form or JSON. It fails
// with drive.BadRequest for a malformed body. The body must not have been read.
func (c sharing) form() (url.Values, error) {
	c.r.Body = http.MaxBytesReader(c.w, c.r.Body, maxSharingForm)
	kind, _, _ := mime.ParseMediaType(c.r.Header.Get("Content-Type")) // an invalid type counts as none
	if kind != "application/json" {
		if err := c.r.ParseForm(); err != nil {
			return nil, drive.Wrap(err, drive.BadRequest, "field", "body", "reason", string(drive.Malformed), "expected", "a form")
		}
		return c.r.Form, nil
	}
	var sent map[string]json.RawMessage
	if err := json.NewDecoder(c.r.Body).Decode(&sent); err != nil {
		return nil, drive.Wrap(err, drive.BadRequest, "field", "body", "reason", string(drive.Malformed), "expected", "JSON")
	}
	form := c.r.URL.Query()
	for name, raw := range sent {
		var text string
		if json.Unmarshal(raw, &text) != nil { // a number or boolean
			text = string(raw)
		}
		if string(raw) == "null" {
			text = ""
		}
		form.Set(name, text)
	}
	return form, nil
}

// wish holds the properties of a share that a request sets; nil fields stay as they are.
type wish struct {
	permissions *int
	password    *string
	until       *drive.Time // zero: no end
	note        *string
}

// readWish parses the properties that the form sets; absent ones stay nil. It fails with
// drive.BadRequest for malformed values and for features that do not exist here (uploads by link,
// hidden downloads). It ignores properties without an effect on access, such as labels.
func (c sharing) readWish(form url.Values) (w wish, err error) {
	text := func(name string) *string {
		if !form.Has(name) {
			return nil
		}
		v := form.Get(name)
		return &v
	}
	w.password, w.note = text("password"), text("note")
	if p := text("permissions"); p != nil && *p != "" {
		n, err := strconv.Atoi(*p)
		if err != nil || n < 0 || n > permitsAll {
			return w, drive.BadField("permissions", drive.OutOfRange, "min", 0, "max", permitsAll, "sent", server.Clip(*p))
		}
		w.permissions = &n
	}
	for _, name := range []string{"publicUpload", "hideDownload", "sendPasswordByTalk"} {
		if v := form.Get(name); v == "true" || v == "1" || v == "yes" {
			return w, drive.BadField(name, drive.NotAllowed, "allowed", []string{"false"}, "sent", "true")
		}
	}
	if restricts(form.Get("attributes")) {
		return w, drive.BadField("attributes", drive.NotAllowed, "allowed", []string{"none that forbid something"}, "sent", server.Clip(form.Get("attributes")))
	}
	if day := text("expireDate"); day != nil {
		until, err := endOfDay(*day)
		if err == nil {
			_, err = c.life(until)
		}
		if err != nil {
			return w, err
		}
		w.until = &until
	}
	return w, nil
}

// restricts reports whether attributes of a share forbid something, such as the download.
func restricts(attributes string) bool {
	var all []struct{ Value, Enabled *bool }
	if attributes == "" || json.Unmarshal([]byte(attributes), &all) != nil {
		return attributes != "" && attributes != "null"
	}
	for _, a := range all {
		if a.Value != nil && !*a.Value || a.Enabled != nil && !*a.Enabled {
			return true
		}
	}
	return false
}

// endOfDay parses a date, YYYY-MM-DD, and returns the last minute of that day in UTC; "" gives 0,
// no end. It fails with drive.BadRequest.
func endOfDay(day string) (drive.Time, error) {
	if day == "" {
		return 0, nil
	}
	at, err := time.Parse(time.DateOnly, day[:min(len(day), len(time.DateOnly))])
	if err != nil {
		return 0, drive.BadField("expireDate", drive.Malformed, "expected", "YYYY-MM-DD", "sent", server.Clip(day))
	}
	return drive.TimeOf(at.Add(24*time.Hour - time.Minute)), nil
}

// life returns how long it is until a time; 0 if until is 0, no end. It fails with drive.BadRequest
// for a time in the past.
func (c sharing) life(until drive.Time) (time.Duration, error) {
	if until == 0 {
		return 0, nil
	}
	now := c.Now().UTC()
	left := until.Sub(drive.TimeOf(now))
	if left <= 0 {
		return 0, drive.BadField("expireDate", drive.OutOfRange, "min", now.Format(time.DateOnly), "max", now.AddDate(10, 0, -3).Format(time.DateOnly))
	}
	return left, nil
}

// renameFields returns a drive.BadRequest with the name of the field that the client uses for it;
// other errors unchanged.
func renameFields(err error) error {
	bad, ok := errors.AsType[*drive.Error](err)
	if !ok || bad.Kind != drive.BadRequest {
		return err
	}
	names := map[string]string{"code": "password", "expires_in": "expireDate", "user": "shareWith", "group": "shareWith", "node": "path"}
	if name, known := names[fmt.Sprint(bad.Args["field"])]; known {
		renamed := *bad
		renamed.Args = maps.Clone(bad.Args)
		renamed.Args["field"] = name
		return &renamed
	}
	return err
}

// linkPassword returns the password for a link. It fails with drive.BadRequest for the word
// share.AutoCode, for which the server would generate a password that the client never learns.
func linkPassword(password string) (string, error) {
	if password == share.AutoCode { // the server would generate a code
		return "", drive.BadField("password", drive.Guessable)
	}
	return password, nil
}

// pathOf returns the node at a path, relative to the root of the client's view. It fails with
// drive.NotFound, or with an error that dav.IsLayout recognizes.
func (c sharing) pathOf(ctx context.Context, path string) (files.NodeView, error) {
	at, err := c.DAV.Address(ctx, c.r, c.view(ctx, "/"), &url.URL{Path: "/" + strings.TrimPrefix(path, "/")})
	if err != nil {
		return files.NodeView{}, err
	}
	return c.Files.GetByPath(ctx, c.who, at)
}

// createShare gives a user or group a role, which replaces an existing one, or creates a link. It
// returns the rendered share. It fails with drive.BadRequest without a path or with an unknown
// type, and drive.NotFound for an unknown node or principal.
func (c sharing) createShare(ctx context.Context) (any, error) {
	form, err := c.form()
	if err != nil {
		return nil, err
	}
	want, err := c.readWish(form)
	if err != nil {
		return nil, err
	}
	if form.Get("path") == "" {
		return nil, drive.BadField("path", drive.Required)
	}
	node, err := c.pathOf(ctx, form.Get("path"))
	if err != nil {
		return nil, err
	}
	s := shared{item: c.itemOf(node)}
	switch form.Get("shareType") {
	case strconv.Itoa(toUser):
		s.grant, err = c.grantRole(ctx, node, space.Principal{Kind: access.User, Name: form.Get("shareWith")}, want)
	case strconv.Itoa(toGroup):
		s.grant, err = c.grantRole(ctx, node, space.Principal{Kind: access.Group, Name: form.Get("shareWith")}, want)
	case strconv.Itoa(byLink):
		s.link, err = c.link(ctx, node, want)
	default:
		err = drive.BadField("shareType", drive.NotAllowed, "allowed", []int{toUser, toGroup, byLink}, "sent", server.Clip(form.Get("shareType")))
	}
	if err != nil {
		return nil, err
	}
	return c.showShare(ctx, s)
}

// grantRole gives a user or group a role. Without permissions it is editor, as in the protocol. It
// writes the grant and fails with drive.BadRequest without a name or with a password, and
// drive.NotFound for an unknown principal.
func (c sharing) grantRole(ctx context.Context, node files.NodeView, to space.Principal, want wish) (*access.Grant, error) {
	if strings.TrimSpace(to.Name) == "" {
		return nil, drive.BadField("shareWith", drive.Required)
	}
	if want.password != nil && *want.password != "" {
		return nil, noPassword()
	}
	to.Name = strings.TrimSpace(to.Name)
	change := grantChange(want, isFolder(node))
	change.New = true
	g, err := c.Spaces.ChangeGrant(ctx, c.who, node.ID, to, change)
	return &g, err
}

// grantChange converts the properties that a request sets to a change of a role. Nextcloud's apps
// for phones send a share again to change it. So without permissions an existing role stays, and a
// new one is editor.
func grantChange(want wish, folder bool) space.GrantChange {
	return space.GrantChange{Note: want.note, Until: want.until, Role: func(now access.Role) (access.Role, error) {
		switch {
		case want.permissions != nil:
			return roleOf(*want.permissions, folder, now)
		case now == access.None:
			return access.Editor, nil
		}
		return now, nil
	}}
}

// noPassword returns the error for a password on a share with a user or group.
func noPassword() error {
	return drive.BadField("password", drive.NotAllowed, "allowed", []string{"none: it is for links"}, "sent", "one")
}

// noNote returns the error for a note on a link.
func noNote() error {
	return drive.BadField("note", drive.NotAllowed, "allowed", []string{"none: it is for users and groups"}, "sent", "one")
}

// link creates a link to the node with the password and the end of the wish. It fails with the
// errors of linkChange and Create; then the view must not be used.
func (c sharing) link(ctx context.Context, node files.NodeView, want wish) (*share.View, error) {
	in := share.Request{Node: node.ID}
	change, err := c.linkChange(want)
	if err != nil {
		return nil, err
	}
	if change.Code != nil {
		in.Code = *change.Code
	}
	if change.Life != nil {
		in.Life = *change.Life
	}
	v, err := c.Shares.Create(ctx, c.who, in, nil)
	return &v, err
}

// linkChange converts a wish to a change of a link. Links only let visitors read; it fails with
// drive.BadRequest for other permissions or a note.
func (c sharing) linkChange(want wish) (change share.Change, err error) {
	if want.permissions != nil && *want.permissions&^permitsShare != permitsRead {
		return change, drive.BadField("permissions", drive.NotAllowed, "allowed", []int{permitsRead}, "sent", *want.permissions)
	}
	if want.note != nil && *want.note != "" {
		return change, noNote()
	}
	if want.password != nil {
		text, err := linkPassword(*want.password)
		if err != nil {
			return change, err
		}
		change.Code = &text
	}
	if want.until != nil {
		life, err := c.life(*want.until)
		if err != nil {
			return change, err
		}
		change.Life = &life
	}
	return change, nil
}

// changeShare changes the properties that the form names and returns the rendered share. It fails
// with drive.NotFound for an unknown number, and with drive.BadRequest for a password on a share
// with a user or group.
func (c sharing) changeShare(ctx context.Context, number int64) (any, error) {
	form, err := c.form()
	if err != nil {
		return nil, err
	}
	want, err := c.readWish(form)
	if err != nil {
		return nil, err
	}
	s, err := c.findShare(ctx, number)
	if err != nil {
		return nil, err
	}
	if s.link != nil {
		change, err := c.linkChange(want)
		if err != nil {
			return nil, err
		}
		now, err := c.Shares.Change(ctx, c.who, s.link.ID, change)
		if err != nil {
			return nil, err
		}
		s.link = &now
		return c.showShare(ctx, s)
	}
	if want.password != nil && *want.password != "" {
		return nil, noPassword()
	}
	g, err := c.Spaces.ChangeGrant(ctx, c.who, s.grant.Node, space.Principal{ID: s.grant.Principal}, grantChange(want, s.item.folder))
	if err != nil {
		return nil, err
	}
	s.grant = &g
	return c.showShare(ctx, s)
}

// deleteShare deletes the link or revokes the role with the number. If the role is that of a group
// and the caller, a member, may not revoke it, the shared node is only hidden from the caller. It
// fails with drive.NotFound for an unknown number, and with drive.Forbidden if the caller may
// neither revoke nor hide it.
func (c sharing) deleteShare(ctx context.Context, number int64) error {
	s, err := c.findShare(ctx, number)
	if err != nil {
		return err
	}
	if s.link != nil {
		return c.Shares.Delete(ctx, c.who, s.link.ID)
	}
	err = c.Spaces.Ungrant(ctx, c.who, s.grant.Node, s.grant.Principal, false)
	if drive.IsKind(err, drive.Forbidden) && s.grant.Kind == access.Group {
		hidden := c.Spaces.HideGroupShare(ctx, c.who, s.grant.Node, drive.GroupID(s.grant.Principal))
		if !drive.IsKind(hidden, drive.NotFound) {
			return hidden
		}
	}
	return err
}
