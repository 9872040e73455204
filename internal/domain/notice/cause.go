package notice

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/stream"
)

// Kind is the subject of a notice. Users choose a channel per kind.
type Kind string

// The kinds.
const (
	Share     Kind = "share"     // a file or folder was shared with the user by name
	Role      Kind = "role"      // a role was changed or revoked, expires soon or has expired
	Space     Kind = "space"     // the user became a member of a space
	Group     Kind = "group"     // the user was added to or removed from a group
	Export    Kind = "export"    // an export is ready, has failed, or is about to be deleted
	Collect   Kind = "collect"   // files arrived by a collect link
	Quota     Kind = "quota"     // a drive or space is nearly full
	Webhook   Kind = "webhook"   // a webhook was disabled
	Operation Kind = "operation" // an operation on many nodes ended, partly with failures
)

// Kinds returns the kinds.
func Kinds() []Kind {
	return []Kind{Share, Role, Space, Group, Export, Collect, Quota, Webhook, Operation}
}

// Event names the event within its kind.
type Event string

// The events.
const (
	Given      Event = "given"
	Changed    Event = "changed"
	MoreShares Event = "more" // further shares that are not notified one by one
	Taken      Event = "taken"
	Ending     Event = "ending" // a role expires soon, or an export is deleted soon
	Ended      Event = "ended"
	Late       Event = "late"    // an export takes longer than expected
	Skipped    Event = "skipped" // a scheduled export could not be made
	Ready      Event = "ready"
	Failed     Event = "failed"
	Arrived    Event = "arrived"
	Full       Event = "full" // nearly full
	Disabled   Event = "disabled"
)

// Cause is an event that one or more users are notified of.
type Cause struct {
	Kind    Kind            `json:"kind"`
	What    Event           `json:"what"`
	Account drive.AccountID `json:"account"`         // account of the event
	Node    drive.NodeID    `json:"node,omitzero"`   // subject of the event; zero: none
	By      drive.UserID    `json:"by,omitzero"`     // user who caused it and is not notified
	User    drive.UserID    `json:"user,omitzero"`   // recipient; zero: see Group and Users
	Group   drive.GroupID   `json:"group,omitzero"`  // all members are recipients; zero: see Users
	Users   []drive.UserID  `json:"users,omitempty"` // recipients who were in a deleted group; at most MaxUsers
	Data    Data            `json:"data"`
}

// MaxUsers bounds Cause.Users, so that a record stays far below 64 KiB.
const MaxUsers = 500

// Data holds the details of a notice.
type Data struct {
	// Name is the name of the subject as the recipient knew it, if it cannot be looked up later: of
	// a node whose role was revoked, of a group, of an export.
	Name    string         `json:"name,omitempty"`
	Role    string         `json:"role,omitempty"`
	Expires drive.Time     `json:"expires_at,omitzero"` // when a role or an export ends
	Export  drive.ExportID `json:"export_id,omitzero"`
	Failed  int64          `json:"failed,omitempty"`  // failed documents of an export, or items of an operation
	Subject string         `json:"subject,omitempty"` // id of a webhook, collect link or schedule
	Reason  string         `json:"reason,omitempty"`  // code of why it failed, was skipped or disabled; or the type of an operation
	Total   drive.ByteSize `json:"total,omitzero"`    // quota of a nearly full drive
}

// ID identifies a notice; it is the id of its cause.
type ID = drive.ID[idTag]

// idTag makes ID a distinct type.
type idTag struct{}

// NewRecord returns the stream record of a cause. Call it before the transaction, or once in it,
// because each call creates a new id.
func NewRecord(c Cause) (stream.Record, error) {
	return stream.New(stream.TopicNotices, stream.NoticeDue, c.Account, string(c.Kind), c)
}

// CauseOf decodes a record that NewRecord created and returns the cause and the id that its notices
// get, which is that of the record: a redelivery yields the same id. It fails if the data is not a
// Cause in JSON.
func CauseOf(r stream.Record) (Cause, ID, error) {
	var c Cause
	if err := json.Unmarshal(r.Data, &c); err != nil {
		return c, ID{}, fmt.Errorf("read the cause of a notice: %w", err)
	}
	return c, ID(r.ID), nil
}

// DerivedID returns the id of a cause found by scanning, which may be found again: it derives from
// the subject and from the time it belongs to.
func DerivedID(at drive.Time, parts ...string) ID {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00") + fmt.Sprintf("\x00%d", int64(at))))
	var id ID
	copy(id[:], sum[:])
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(at)) //nolint:gosec // a moment after 1970
	copy(id[:6], ms[2:])                          // sorts by time, as the ids of records do
	id[6] = id[6]&0x0f | 0x80                     // RFC 9562 version 8
	id[8] = id[8]&0x3f | 0x80
	return id
}

// lowestIDWithin returns an id below all ids of the period d before id.
func lowestIDWithin(id ID, d time.Duration) ID {
	var ms [8]byte
	copy(ms[2:], id[:6])
	binary.BigEndian.PutUint64(ms[:], binary.BigEndian.Uint64(ms[:])-uint64(d.Milliseconds())) //nolint:gosec // a moment after 1970
	var low ID
	copy(low[:6], ms[2:])
	return low
}

// Channel is how a user wants to be notified.
type Channel string

// The channels.
const (
	Off  Channel = "off"
	Page Channel = "page"
	Mail Channel = "mail" // and on the page
)

// Channels returns the channels.
func Channels() []Channel { return []Channel{Off, Page, Mail} }

// Choices are the channels that a user has chosen. A missing kind means Mail, which requires a
// confirmed address.
type Choices map[Kind]Channel

// Of returns the channel of a kind.
func (c Choices) Of(k Kind) Channel {
	if ch, ok := c[k]; ok {
		return ch
	}
	return Mail
}

// All returns the channels of all kinds.
func (c Choices) All() Choices {
	all := Choices{}
	for _, k := range Kinds() {
		all[k] = c.Of(k)
	}
	return all
}

// Check fails with BadRequest {channels, allowed} if a key is not one of Kinds or a value not one
// of Channels; nil and empty choices pass.
func (c Choices) Check() error {
	for k, ch := range c {
		if !slices.Contains(Kinds(), k) {
			return drive.BadField("channels", drive.NotAllowed, "allowed", Kinds(), "sent", string(k))
		}
		if !slices.Contains(Channels(), ch) {
			return drive.BadField("channels", drive.NotAllowed, "allowed", Channels(), "sent", string(ch))
		}
	}
	return nil
}
