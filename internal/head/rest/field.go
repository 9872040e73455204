package rest

import (
	"context"
	"mime"
	"strings"
	"time"
	"unicode"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/usecase/files"
)

// pathField is an address in JSON; a nil path: absent.
type pathField struct{ drive.Address }

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *pathField) UnmarshalText(b []byte) (err error) {
	p.Address, err = drive.ParseAddress(string(b))
	return err
}

// nameField is a name in JSON; empty: absent.
type nameField drive.Name

// UnmarshalText implements encoding.TextUnmarshaler.
func (n *nameField) UnmarshalText(b []byte) error {
	name, err := drive.ParseName(string(b))
	*n = nameField(name)
	return err
}

// conflictField is a policy in JSON; empty: absent.
type conflictField drive.Conflict

// UnmarshalText implements encoding.TextUnmarshaler. The empty text is not a policy.
func (f *conflictField) UnmarshalText(b []byte) error {
	text := string(b)
	if text == "" {
		text = " "
	}
	conflict, err := drive.ParseConflict(text, "")
	*f = conflictField(conflict)
	return err
}

// mimeField is a media type in JSON; empty: absent.
type mimeField string

const maxMime = 255 // bytes; RFC 6838 §4.2 allows 127 on each side of the slash

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *mimeField) UnmarshalText(b []byte) error {
	text, ok := parseMime(string(b))
	if !ok {
		return drive.Fail(drive.BadRequest, "reason", string(drive.Malformed), "expected", "a media type of at most 255 bytes")
	}
	*f = mimeField(text)
	return nil
}

// parseMime checks a media type that a client gives a file: it is sent as Content-Type when the
// file is read. What package mime takes for space between parameters may be a line break, which is
// none in a header.
func parseMime(s string) (string, bool) {
	media, _, err := mime.ParseMediaType(s)
	major, minor, two := strings.Cut(media, "/")
	return s, err == nil && two && major != "" && minor != "" && len(s) <= maxMime && !strings.ContainsFunc(s, unicode.IsControl)
}

// destination is what a body says of where something is to go.
type destination struct {
	path   pathField
	parent string
	name   nameField
}

// place is where something is to go: at a path, or by a name in a folder.
type place struct {
	in     string // where path is; empty: the caller's own drive
	path   drive.Path
	parent drive.NodeID
	name   drive.Name
}

// find checks that a body says exactly one of the two.
func (d destination) find(ctx context.Context, c *call, in *files.Files) (place, error) {
	switch {
	case d.path.Path != nil && d.parent != "":
		return place{}, drive.Bad("path", drive.NotTogether, "with", "parent")
	case d.path.Path != nil && d.name != "":
		return place{}, drive.Bad("path", drive.NotTogether, "with", "name")
	case d.path.Path != nil && len(d.path.Path) == 0:
		return place{}, drive.Fail(drive.BadName, "field", "path", "reason", "root")
	case d.path.Path != nil:
		return place{in: d.path.Place, path: d.path.Path}, nil
	case d.parent == "" && d.name == "":
		return place{}, drive.Bad("path", drive.Required)
	case d.parent == "":
		return place{}, drive.Bad("parent", drive.Required)
	case d.name == "":
		return place{}, drive.Bad("name", drive.Required)
	}
	id, err := in.ParseNode(ctx, c.who, d.parent)
	return place{parent: id, name: drive.Name(d.name)}, err
}

// folderID reads the id of a folder in a body; absent is zero.
func folderID(ctx context.Context, c *call, in *files.Files, id *string) (drive.NodeID, error) {
	if id == nil {
		return drive.NodeID{}, nil
	}
	return in.ParseNode(ctx, c.who, *id)
}

// timeOf reads an optional time.
func timeOf(t *drive.Time) drive.Time {
	if t == nil {
		return 0
	}
	return *t
}

// seconds checks a number of seconds before it could overflow a Duration.
func seconds(field string, n, least, most int64) (time.Duration, error) {
	if n < least || n > most {
		return 0, drive.Bad(field, drive.OutOfRange, "min", least, "max", most, "sent", n)
	}
	return time.Duration(n) * time.Second, nil
}

// nodeOf reads the node that a parameter of the query names; zero: none.
func nodeOf(ctx context.Context, c *call, f *files.Files, name string) (drive.NodeID, error) {
	id := c.query.Get(name)
	if id == "" {
		return drive.NodeID{}, nil
	}
	return f.ParseNode(ctx, c.who, id)
}
