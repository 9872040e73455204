package rest

import (
	"context"
	"mime"
	"strings"
	"time"
	"unicode"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/files"
)

// pathField is an address in JSON. Its Path is nil if the field is absent.
type pathField struct{ drive.Address }

// UnmarshalText parses an address. It fails with drive.BadName.
func (p *pathField) UnmarshalText(b []byte) (err error) {
	p.Address, err = drive.ParseAddress(string(b))
	return err
}

// nameField is a name in JSON; empty if the field is absent.
type nameField drive.Name

// UnmarshalText parses the name of a node. It fails with drive.BadName.
func (n *nameField) UnmarshalText(b []byte) error {
	name, err := drive.ParseName(string(b))
	*n = nameField(name)
	return err
}

// conflictField is a conflict policy in JSON; empty if the field is absent.
type conflictField drive.Conflict

// UnmarshalText parses a conflict mode. It fails with drive.BadRequest for another text; the empty
// text is refused too.
func (f *conflictField) UnmarshalText(b []byte) error {
	text := string(b)
	if text == "" {
		text = " "
	}
	conflict, err := drive.ParseConflict(text, "")
	*f = conflictField(conflict)
	return err
}

// mimeField is a media type in JSON; empty if the field is absent.
type mimeField string

const maxMime = 255 // bytes; RFC 6838 §4.2 allows 127 on each side of the slash

// UnmarshalText parses a media type. It fails with drive.BadRequest.
func (f *mimeField) UnmarshalText(b []byte) error {
	text, ok := parseMime(string(b))
	if !ok {
		return drive.Fail(drive.BadRequest, "reason", string(drive.Malformed), "expected", "a media type of at most 255 bytes")
	}
	*f = mimeField(text)
	return nil
}

// parseMime returns s, and whether it is a valid media type of a file, which a download sends as
// Content-Type. Control characters are refused, because package mime accepts line breaks as space,
// which a header must not contain.
func parseMime(s string) (string, bool) {
	media, _, err := mime.ParseMediaType(s)
	major, minor, two := strings.Cut(media, "/")
	return s, err == nil && two && major != "" && minor != "" && len(s) <= maxMime && !strings.ContainsFunc(s, unicode.IsControl)
}

// destination holds the fields of a body that say where to create a file.
type destination struct {
	path   pathField
	parent string
	name   nameField
}

// target is a parsed destination: either a path, or a name in a folder.
type target struct {
	space  string // drive or space that path is in; empty: the caller's own drive
	path   drive.Path
	parent drive.NodeID
	name   drive.Name
}

// parse checks that the body has either a path, or both parent and name, and parses the parent. It
// fails with drive.BadRequest or drive.BadName.
func (d destination) parse(ctx context.Context, c *call, in *files.Files) (target, error) {
	switch {
	case d.path.Path != nil && d.parent != "":
		return target{}, drive.BadField("path", drive.NotTogether, "with", "parent")
	case d.path.Path != nil && d.name != "":
		return target{}, drive.BadField("path", drive.NotTogether, "with", "name")
	case d.path.Path != nil && len(d.path.Path) == 0:
		return target{}, drive.Fail(drive.BadName, "field", "path", "reason", "root")
	case d.path.Path != nil:
		return target{space: d.path.Place, path: d.path.Path}, nil
	case d.parent == "" && d.name == "":
		return target{}, drive.BadField("path", drive.Required)
	case d.parent == "":
		return target{}, drive.BadField("parent", drive.Required)
	case d.name == "":
		return target{}, drive.BadField("name", drive.Required)
	}
	id, err := in.ParseNode(ctx, c.who, d.parent)
	return target{parent: id, name: drive.Name(d.name)}, err
}

// folderID parses the id of a folder in a body; a nil id gives the zero id.
func folderID(ctx context.Context, c *call, in *files.Files, id *string) (drive.NodeID, error) {
	if id == nil {
		return drive.NodeID{}, nil
	}
	return in.ParseNode(ctx, c.who, *id)
}

// timeOf returns the time, or 0 if t is nil.
func timeOf(t *drive.Time) drive.Time {
	if t == nil {
		return 0
	}
	return *t
}

// seconds converts n to a Duration. It fails with drive.BadRequest if n is outside of least and
// most.
func seconds(field string, n, least, most int64) (time.Duration, error) {
	if n < least || n > most {
		return 0, drive.BadField(field, drive.OutOfRange, "min", least, "max", most, "sent", n)
	}
	return time.Duration(n) * time.Second, nil
}

// nodeOf parses the node id in a query parameter; an absent parameter gives the zero id.
func nodeOf(ctx context.Context, c *call, f *files.Files, name string) (drive.NodeID, error) {
	id := c.query.Get(name)
	if id == "" {
		return drive.NodeID{}, nil
	}
	return f.ParseNode(ctx, c.who, id)
}
