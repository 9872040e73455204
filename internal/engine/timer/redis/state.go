package redis

import (
	"encoding/binary"
	"errors"
	"strconv"
	"strings"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/timer"
)

// Encodings shared with the scripts, big-endian; times and durations are in ms. A changed layout
// needs a new format number.
//
//	state  format << 4 | flags (1), gen (8), account (16), idle (6), max (6), first (6), last (6), at (6), push-backs (4, or none: 0)
//	fired  token (8), gen (8), account (16), first (6), last (6), due (6), attempt (4), delivery (4), call (6), holder (up to a zero
//	       byte, or all), push-backs (4), at (6), 1 = indexed by the hour (1)
//	armed  id (16), gen (8), account (16), idle (6), max (6), age of last (6), age of first (6)
//	ended  id (16), token (8), verdict (1), in (6), attempt (4)
const (
	format     = 1
	stateLen   = 55
	countLen   = 4 // appended to the state of a timer that was pushed back
	firedLen   = 64
	placeLen   = 12 // appended to the holder: zero byte, push-backs, index time, coarse. Older releases did not write it
	flagLeased = 1
	flagCoarse = 4

	// maxGen is the greatest integer that Lua's numbers (doubles) represent exactly.
	maxGen int64 = 1<<53 - 1
	maxInt       = 1<<48 - 1 // of 6 bytes; as ms 8,900 years
)

// state is a timer as stored in the shard. Times and durations are in ms.
type state struct {
	leased, coarse       bool
	gen                  int64
	account              drive.AccountID
	idle, max            int64
	first, last, indexed int64
	pushed               int64 // push-backs
}

// errFormat reports a stored timer of another length or format number.
var errFormat = errors.New("a timer in Redis is not of the format of this version")

// parseState decodes a stored state; another length or format fails with errFormat.
func parseState(s string) (st state, err error) {
	if len(s) != stateLen && len(s) != stateLen+countLen || s[0]>>4 != format {
		return st, errFormat
	}
	r := fields(s[1:])
	st.leased, st.coarse = s[0]&flagLeased != 0, s[0]&flagCoarse != 0
	st.gen, st.account = int64(r.uint(8)), drive.AccountID(r.id())
	st.idle, st.max, st.first, st.last, st.indexed = r.ms(), r.ms(), r.ms(), r.ms(), r.ms()
	if len(r) > 0 {
		st.pushed = int64(r.uint(countLen))
	}
	return st, nil
}

// due returns the due time in ms, not before the index time.
func (st *state) due() int64 {
	due := st.last + st.idle
	if st.max > 0 {
		due = min(due, st.first+st.max)
	}
	return max(due, st.indexed)
}

// parseFired decodes a fired timer and the name of the instance that last leased it. A short value
// fails with errFormat.
func parseFired(s string) (f timer.Fired, holder string, err error) {
	if len(s) < firedLen {
		return f, "", errFormat
	}
	r := fields(s)
	f.Token, f.Gen, f.Account = r.uint(8), int64(r.uint(8)), drive.AccountID(r.id())
	f.First, f.Last, f.Due = drive.Time(r.ms()), drive.Time(r.ms()), drive.Time(r.ms())
	f.Attempt, f.Delivery = int(r.uint(4)), int(r.uint(4))
	holder, place, _ := strings.Cut(string(r[callLen:]), "\x00")
	if len(place) == placeLen-1 {
		p := fields(place)
		f.PushBacks = int64(p.uint(4))
		at := state{indexed: p.ms()}
		at.coarse = p.uint(1) == 1
		f.Slice = at.sliceName()
	}
	return f, holder, nil
}

// fields is a string of big-endian fields; its methods remove a field from the front. The caller
// must check the length.
type fields string

// uint removes an n-byte big-endian integer from the front of f and returns it. f must have n
// bytes.
func (f *fields) uint(n int) (v uint64) {
	for _, b := range []byte((*f)[:n]) {
		v = v<<8 | uint64(b)
	}
	*f = (*f)[n:]
	return v
}

// ms removes a 6-byte time in ms.
func (f *fields) ms() int64 { return int64(f.uint(6)) }

// id removes a 16-byte id from the front of f and returns it. f must have 16 bytes.
func (f *fields) id() (id [16]byte) {
	copy(id[:], *f)
	*f = (*f)[16:]
	return id
}

// append6 appends v to b as 6 bytes, big-endian, limited to the range 0 to maxInt, and returns the
// extended slice.
func append6(b []byte, v int64) []byte {
	v = min(max(v, 0), maxInt)
	return append(binary.BigEndian.AppendUint16(b, uint16(v>>32)), byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
}

// encodeEntry encodes an entry for ARM. Times become ages, because the server's clock differs from
// the clock of the owner's rows.
func encodeEntry(x *timer.Entry, now time.Time) string {
	age := func(t drive.Time) int64 { return max(now.UnixMilli()-int64(t), 0) }
	last := int64(0)
	if x.Last != 0 {
		last = age(x.Last)
	}
	first := last
	if x.First != 0 {
		first = max(age(x.First), last)
	}
	b := append(make([]byte, 0, 64), x.Key.ID[:]...)
	b = append(binary.BigEndian.AppendUint64(b, uint64(x.Gen)), x.Account[:]...)
	return string(append6(append6(append6(append6(b, ceilMs(x.Idle)), ceilMs(x.Max)), last), first))
}

// encodeOutcome encodes an outcome for SETTLE.
func encodeOutcome(o *timer.Outcome) string {
	b := append(make([]byte, 0, 35), o.Key.ID[:]...)
	b = append(binary.BigEndian.AppendUint64(b, o.Token), byte(o.Verdict))
	b = append6(b, ceilMs(min(max(o.In, 0), timer.MaxDelay)))
	return string(binary.BigEndian.AppendUint32(b, uint32(max(o.Attempt, 0))))
}

// ceilMs converts d to ms and rounds up, so that nothing fires early (T1).
func ceilMs(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

// A timer of less than an hour is indexed by the minute, a longer one by the hour.
const (
	minute = int64(time.Minute / time.Millisecond)
	hour   = int64(time.Hour / time.Millisecond)

	// clockSlack is the error allowed when the caller predicts the server's clock. A greater
	// error costs one more call for the right slice.
	clockSlack = int64(time.Second / time.Millisecond)
)

// minuteSlice returns the code of the minute slice that contains ms.
func minuteSlice(ms int64) string { return "m" + strconv.FormatInt(ms/minute, 10) }

// hourSlice returns the code of the hour slice that contains ms.
func hourSlice(ms int64) string { return "h" + strconv.FormatInt(ms/hour, 10) }

// sliceName returns the slice for display: "2026-11-20 23:54", or "2026-11-20 23h" for an hour.
func (st *state) sliceName() string {
	at := time.UnixMilli(st.indexed).UTC()
	if st.coarse {
		return at.Format("2006-01-02 15h")
	}
	return at.Format("2006-01-02 15:04")
}
