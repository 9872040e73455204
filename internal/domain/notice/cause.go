package notice

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/stream"
)

// Kind is what a notice is about: what people choose a channel for.
type Kind string

// The kinds.
const (
	Share     Kind = "share"     // a file or folder was shared with the person by name
	Role      Kind = "role"      // a role was changed or taken away, ends soon or has ended
	Space     Kind = "space"     // the person is a member of a space
	Group     Kind = "group"     // the person is in a group, or not any more
	Export    Kind = "export"    // a zip is ready, has failed, or is about to be deleted
	Collect   Kind = "collect"   // files came by a collect link
	Quota     Kind = "quota"     // a drive or space is nearly full
	Webhook   Kind = "webhook"   // a webhook was disabled
	Operation Kind = "operation" // work on many nodes has ended, and some of it failed
)

// Kinds lists the kinds.
func Kinds() []Kind {
	return []Kind{Share, Role, Space, Group, Export, Collect, Quota, Webhook, Operation}
}

// What says what happened.
type What string

// What happens.
const (
	Given    What = "given"
	Changed  What = "changed"
	More     What = "more" // than is told one by one: see what is shared
	Taken    What = "taken"
	Ending   What = "ending" // a role, or an export that is about to be deleted
	Ended    What = "ended"
	Late     What = "late" // an export runs for longer than expected
	Ready    What = "ready"
	Failed   What = "failed"
	Arrived  What = "arrived"
	Full     What = "full" // nearly
	Disabled What = "disabled"
)

// Cause is something that somebody is to be told of.
type Cause struct {
	Kind    Kind            `json:"kind"`
	What    What            `json:"what"`
	Account drive.AccountID `json:"account"`         // in which it is
	Node    drive.NodeID    `json:"node,omitzero"`   // which it is about
	By      drive.UserID    `json:"by,omitzero"`     // who did it, and is not told
	User    drive.UserID    `json:"user,omitzero"`   // who is told,
	Group   drive.GroupID   `json:"group,omitzero"`  // or of which group all members are,
	Users   []drive.UserID  `json:"users,omitempty"` // or these, who were in a group that is gone: up to MostUsers
	Data    Data            `json:"data"`
}

// MostUsers is how many people one cause names: a record is far below 64 KiB.
const MostUsers = 500

// Data is what a notice says besides.
type Data struct {
	// Name is that of what it is about as the reader knew it, where it may not be looked up later:
	// of a node whose role was taken away, of a group, of an export.
	Name    string         `json:"name,omitempty"`
	Role    string         `json:"role,omitempty"`
	Expires drive.Time     `json:"expires_at,omitzero"`
	Export  drive.ExportID `json:"export_id,omitzero"`
	Failed  int64          `json:"failed,omitempty"`  // documents of an export, items of an operation
	Subject string         `json:"subject,omitempty"` // the id of a webhook, of a collect link
	Reason  string         `json:"reason,omitempty"`  // why it failed, or was disabled; what an operation does: a word
	Total   drive.ByteSize `json:"total,omitzero"`    // of a drive that is nearly full
}

// ID is that of a notice: of its cause.
type ID = drive.ID[ofNotice]

type ofNotice struct{}

// Due is the record of a cause. It is called before the transaction, or once in it.
func Due(c Cause) (stream.Record, error) {
	return stream.New(stream.TopicNotices, stream.NoticeDue, c.Account, string(c.Kind), c)
}

// CauseOf reads a record that Due made.
func CauseOf(r stream.Record) (Cause, ID, error) {
	var c Cause
	if err := json.Unmarshal(r.Data, &c); err != nil {
		return c, ID{}, fmt.Errorf("read the cause of a notice: %w", err)
	}
	return c, ID(r.ID), nil
}

// Named is the id of a cause that is found by looking, and that may be found again: it is made of
// what it is about and of the moment that it belongs to.
func Named(at drive.Time, parts ...string) ID {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00") + fmt.Sprintf("\x00%d", int64(at))))
	var id ID
	copy(id[:], sum[:])
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(at)) //nolint:gosec // a moment after 1970
	copy(id[:6], ms[2:])                          // in the order of time, as those of records
	id[6] = id[6]&0x0f | 0x80                     // RFC 9562 version 8
	id[8] = id[8]&0x3f | 0x80
	return id
}

// before is below all ids of moments that are within d before that of an id.
func before(id ID, d time.Duration) ID {
	var ms [8]byte
	copy(ms[2:], id[:6])
	binary.BigEndian.PutUint64(ms[:], binary.BigEndian.Uint64(ms[:])-uint64(d.Milliseconds())) //nolint:gosec // a moment after 1970
	var low ID
	copy(low[:6], ms[2:])
	return low
}

// Channel is how somebody wants to be told.
type Channel string

// The channels.
const (
	Off  Channel = "off"
	Page Channel = "page"
	Mail Channel = "mail" // and on the page
)

// Channels lists the channels.
func Channels() []Channel { return []Channel{Off, Page, Mail} }

// Choices are the channels that somebody has chosen; a kind that is not there is told by Mail, to
// those who have given an address.
type Choices map[Kind]Channel

// Of is the channel of a kind.
func (c Choices) Of(k Kind) Channel {
	if ch, ok := c[k]; ok {
		return ch
	}
	return Mail
}

// All are the channels of all kinds.
func (c Choices) All() Choices {
	all := Choices{}
	for _, k := range Kinds() {
		all[k] = c.Of(k)
	}
	return all
}

// Check refuses what is no kind or no channel.
func (c Choices) Check() error {
	for k, ch := range c {
		if !slices.Contains(Kinds(), k) {
			return drive.Bad("channels", drive.NotAllowed, "allowed", Kinds(), "sent", string(k))
		}
		if !slices.Contains(Channels(), ch) {
			return drive.Bad("channels", drive.NotAllowed, "allowed", Channels(), "sent", string(ch))
		}
	}
	return nil
}
