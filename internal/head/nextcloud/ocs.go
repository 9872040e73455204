package nextcloud

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/head/dav"
	"example.org/smartdrive/internal/head/problem"
	"example.org/smartdrive/internal/usecase/share"
)

// Protocol version that this server announces. It decides which features clients use; clients warn
// of old versions.
const (
	protocolMajor  = 31
	protocolText   = "31.0.0"
	protocolNumber = protocolText + ".0"
	product        = "SmartDrive"
)

// object is a JSON object or XML element with ordered members.
type object []member

// member is one named value of an object.
type member struct {
	name  string
	value any // object, list, string, int, int64, bool, nil
}

// list is an OCS array; nil encodes as empty.
type list []any

// MarshalJSON writes the members in their order. Names are quoted as Go strings, so they must be
// plain ASCII.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Quote(m.name) + ":") // names are constant ASCII
		v, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		b.Write(v)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// MarshalJSON encodes a nil list as [].
func (l list) MarshalJSON() ([]byte, error) {
	if len(l) == 0 {
		return []byte("[]"), nil
	}
	return json.Marshal([]any(l))
}

// writeXML appends value as an element of the name to b. The members of an object become child
// elements, the items of a list become elements named "element", true is 1, false and nil are
// empty. name must be a valid element name.
func writeXML(b *strings.Builder, name string, value any) {
	switch v := value.(type) {
	case object:
		b.WriteString("<" + name + ">")
		for _, m := range v {
			writeXML(b, m.name, m.value)
		}
		b.WriteString("</" + name + ">")
	case list:
		b.WriteString("<" + name + ">")
		for _, e := range v {
			writeXML(b, "element", e)
		}
		b.WriteString("</" + name + ">")
	case nil:
		b.WriteString("<" + name + "/>")
	case bool: // PHP's spelling
		if text := ""; v {
			text = "1"
			b.WriteString("<" + name + ">" + text + "</" + name + ">")
		} else {
			b.WriteString("<" + name + ">" + text + "</" + name + ">")
		}
	default:
		b.WriteString("<" + name + ">" + escape(fmt.Sprint(v)) + "</" + name + ">")
	}
}

// escape returns s as XML text.
func escape(s string) string { return dav.Escape(s) }

// ocs handles the OCS API, /ocs/v1.php/... and /ocs/v2.php/...: it sends the data of ocsData in the
// envelope of OCS, and errors with ocsFail. Other versions fail with drive.NotFound.
func (c *call) ocs(ctx context.Context) error {
	if v := c.at(1); v != "v1.php" && v != "v2.php" {
		return drive.Fail(drive.NotFound)
	}
	data, err := c.ocsData(ctx)
	if err != nil {
		return c.ocsFail(err)
	}
	return c.ocsSend(http.StatusOK, "OK", data)
}

// ocsFail answers with the status and the text of err in the OCS envelope. It returns err without
// answering for the statuses 429 and 503, which clients expect outside of the envelope.
func (c *call) ocsFail(err error) error {
	said := problem.From(err, problem.Negotiate(c.r.Header.Get("Accept-Language")), "")
	switch said.Status {
	case http.StatusUnauthorized:
		c.w.Header().Set("WWW-Authenticate", challenge)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return err
	}
	problem.Note(c.w, err)
	return c.ocsSend(said.Status, said.Detail, list{})
}

// ocsSend sends data in the OCS envelope, as JSON if the client asks for it, else as XML. For
// version 1 of the API the code for 200 is 100, and the HTTP status is 200 for everything but 401.
// It fails only if data cannot be encoded, before anything is sent.
func (c *call) ocsSend(status int, message string, data any) error {
	code, sent, word := status, status, "ok"
	if status >= http.StatusBadRequest {
		word = "failure"
	}
	if status == http.StatusUnauthorized {
		code = 997
	}
	if c.at(1) == "v1.php" && status != http.StatusUnauthorized {
		sent = http.StatusOK
		switch status {
		case http.StatusOK:
			code = 100
		case http.StatusNotFound:
			if !strings.HasPrefix(strings.Join(c.path[2:], "/"), sharingPath) { // unknown path
				code = 998
			}
		}
	}
	all := object{{"meta", object{{"status", word}, {"statuscode", code}, {"message", message}}}, {"data", data}}
	h := c.w.Header()
	h.Set("Cache-Control", "no-store")
	if c.r.URL.Query().Get("format") == "json" || strings.Contains(c.r.Header.Get("Accept"), "application/json") {
		return c.sendJSON(sent, object{{"ocs", all}})
	}
	var b strings.Builder
	b.WriteString(xml.Header)
	writeXML(&b, "ocs", all)
	h.Set("Content-Type", "application/xml; charset=utf-8")
	c.w.WriteHeader(sent)
	_, _ = c.w.Write([]byte(b.String())) // fails only if the client is disconnected
	return nil
}

// sendJSON sends v with the status. It fails only if v cannot be encoded, before anything is sent;
// a failed write is ignored.
func (c *call) sendJSON(status int, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	c.w.Header().Set("Content-Type", "application/json; charset=utf-8")
	c.w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
	c.w.WriteHeader(status)
	_, _ = c.w.Write(raw) //nolint:gosec // JSON, and said to be; it fails only when the client is gone
	return nil
}

// newPassword is the path that creates an app password. It changes something although its method is
// GET.
const newPassword = "core/getapppassword"

// ocsData executes the request of an OCS path and returns its data: an object or a list. It
// authenticates all paths except config and capabilities, and fails with drive.NotFound for an
// unknown path.
func (c *call) ocsData(ctx context.Context) (any, error) {
	what := strings.Join(c.path[2:], "/")
	switch what {
	case "config":
		return object{{"version", "1.7"}, {"website", product}, {"host", c.r.Host}, {"contact", ""}, {"ssl", strings.HasPrefix(c.base(), "https")}}, nil
	case "cloud/capabilities":
		release, err := c.Visitor(c.r)
		if err != nil {
			return nil, err
		}
		defer release()
		return c.capabilities(), nil
	}
	leave, err := c.authenticate(!reads(c.r.Method) || what == newPassword)
	if err != nil {
		return nil, err
	}
	defer leave()
	switch {
	case what == "cloud/user":
		return c.user(ctx)
	case strings.HasPrefix(what, "cloud/users/"):
		return c.userNamed(ctx, strings.TrimPrefix(what, "cloud/users/"))
	case what == newPassword:
		return c.getAppPassword(ctx)
	case what == "core/apppassword" && c.r.Method == http.MethodDelete:
		if c.who.Session.IsZero() { // the request came with the account's password
			return nil, drive.Fail(drive.Forbidden)
		}
		return list{}, c.Sessions.Delete(ctx, c.who, account.KindToken, c.who.Session)
	case strings.HasPrefix(what, sharingPath):
		data, err := sharing{c}.answer(ctx, strings.TrimPrefix(what, sharingPath))
		return data, renameFields(err)
	case c.r.Method == http.MethodGet && hasEmptyList(what):
		return list{}, nil
	}
	return nil, drive.Fail(drive.NotFound)
}

// hasEmptyList reports whether the path is one that clients request even though the capabilities do
// not announce it. The response is an empty list.
func hasEmptyList(what string) bool {
	for _, prefix := range []string{
		"core/navigation/apps", "apps/notifications/api/", "apps/external/api/", "apps/files/api/v1/templates", "apps/recommendations/api/", "core/autocomplete/get",
	} {
		if strings.HasPrefix(what, prefix) {
			return true
		}
	}
	return false
}

// capabilities returns the features that the server announces. Bulk upload depends on the
// User-Agent; see supportsBulk.
func (c *call) capabilities() object {
	dav := object{{"chunking", "1.0"}, {"trashbin", "1.0"}}
	if supportsBulk(c.r.UserAgent()) {
		dav = append(dav, member{"bulkupload", "1.0"})
	}
	return object{
		{"version", object{{"major", protocolMajor}, {"minor", 0}, {"micro", 0}, {"string", protocolText}, {"edition", ""}, {"extendedSupport", false}}},
		{"capabilities", object{
			{"core", object{{"pollinterval", 60}, {"webdav-root", "remote.php/webdav"}}},
			{"dav", dav},
			{"files", object{{"bigfilechunking", true}, {"blacklisted_files", list{}}, {"undelete", true}, {"versioning", true}, {"comments", false}}},
			{"files_sharing", sharingCapabilities()},
			{"password_policy", object{
				{"minLength", share.MinCode},
				{"enforceNonCommonPassword", false},
				{"enforceNumericCharacters", false},
				{"enforceSpecialCharacters", false},
				{"enforceUpperLowerCase", false},
			}},
			{"theming", object{{"name", product}, {"url", c.base()}, {"slogan", ""}, {"color", "#2f62e0"}, {"color-text", "#ffffff"}}},
		}},
	}
}

// user describes the caller: name and quota. It fails with the error of a query.
func (c *call) user(ctx context.Context) (object, error) {
	name, err := c.Name(ctx, c.who.User)
	if err != nil {
		return nil, err
	}
	b, err := c.Balance(ctx, c.who.Account)
	if err != nil {
		return nil, err
	}
	used, free := int64(b.Used()), int64(b.Available())
	total := used + free
	relative := float64(0)
	if total > 0 {
		relative = float64(used) * 100 / float64(total)
	}
	return object{
		{"id", name},
		{"enabled", true},
		{"display-name", name},
		{"displayname", name},
		{"email", ""},
		{"language", "en"},
		{"locale", "en"},
		{"quota", object{{"free", free}, {"used", used}, {"total", total}, {"relative", relative}, {"quota", total}}},
		{"groups", list{}},
	}, nil
}

// userNamed returns the description of the caller if name is the caller's own. Other names fail
// with NotFound.
func (c *call) userNamed(ctx context.Context, name string) (object, error) {
	own, err := c.Name(ctx, c.who.User)
	if err == nil && drive.Name(own).Fold() != drive.Name(name).Fold() {
		err = drive.Fail(drive.NotFound)
	}
	if err != nil {
		return nil, err
	}
	return c.user(ctx)
}

// getAppPassword creates an app password for a client that authenticated by the account's password.
// It fails with the error of Exchange, for example for a client that already uses an app password.
func (c *call) getAppPassword(ctx context.Context) (any, error) {
	g, err := c.Sessions.Exchange(ctx, c.who, account.NewToken{
		Name: c.r.UserAgent(), Scopes: drive.ScopeRead | drive.ScopeWrite, Heads: drive.HeadNextcloud,
	})
	if err != nil {
		return nil, err
	}
	return object{{"apppassword", g.Secret}}, nil
}
