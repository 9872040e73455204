package redis

import (
	"encoding/binary"
	"errors"
	"strconv"
	"strings"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/timer"
)

// What the scripts pack, big-endian; times and spans are ms. A layout that changes takes another
// format number.
//
//	state  format << 4 | flags (1), gen (8), account (16), idle (6), max (6), first (6), last (6), at (6), push-backs (4, or none: 0)
//	fired  token (8), gen (8), account (16), first (6), last (6), due (6), attempt (4), delivery (4), call (6), holder (up to a zero
//	       byte, or all), push-backs (4), at (6), 1 = indexed by the hour (1)
//	armed  id (16), gen (8), account (16), idle (6), max (6), age of last (6), age of first (6)
//	ended  id (16), token (8), verdict (1), in (6), attempt (4)
const (
	format     = 1
	stateLen   = 55
	countLen   = 4 // behind the state: a timer that was pushed back
	firedLen   = 64
	placeLen   = 12 // behind the holder: zero byte, push-backs, at, by the hour. Absent in what an older release froze
	flagLeased = 1
	flagCoarse = 4

	// maxGen is what Lua's numbers, which are doubles, can hold.
	maxGen = 1<<53 - 1
	maxInt = 1<<48 - 1 // of 6 bytes; as ms 8,900 years
)

// state is a timer as the shard keeps it.
type state struct {
	leased, coarse       bool
	gen                  int64
	account              drive.AccountID
	idle, max            int64
	first, last, indexed int64
	pushed               int64 // push-backs
}

var errFormat = errors.New("a timer in Redis is not of the format of this version")

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

func (st *state) due() int64 {
	due := st.last + st.idle
	if st.max > 0 {
		due = min(due, st.first+st.max)
	}
	return max(due, st.indexed)
}

// parseFired reads what was frozen when a timer fired, and who leased it last.
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

// fields reads big-endian fields off the front of a string that is long enough.
type fields string

func (f *fields) uint(n int) (v uint64) {
	for _, b := range []byte((*f)[:n]) {
		v = v<<8 | uint64(b)
	}
	*f = (*f)[n:]
	return v
}

func (f *fields) ms() int64 { return int64(f.uint(6)) }

func (f *fields) id() (id [16]byte) {
	copy(id[:], *f)
	*f = (*f)[16:]
	return id
}

func append6(b []byte, v int64) []byte {
	v = min(max(v, 0), maxInt)
	return append(binary.BigEndian.AppendUint16(b, uint16(v>>32)), byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
}

// armed packs an entry. Its times become ages, because the server's clock is another one than the
// truth's.
func armed(x *timer.Entry, now time.Time) string {
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

func ended(o *timer.Outcome) string {
	b := append(make([]byte, 0, 35), o.Key.ID[:]...)
	b = append(binary.BigEndian.AppendUint64(b, o.Token), byte(o.Verdict))
	b = append6(b, ceilMs(min(max(o.In, 0), timer.MaxDelay)))
	return string(binary.BigEndian.AppendUint32(b, uint32(max(o.Attempt, 0))))
}

// ceilMs rounds up, so that nothing fires early (T1).
func ceilMs(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

// Slices. A short timer is indexed by the minute, one of an hour or more by the hour.
const (
	minute = int64(time.Minute / time.Millisecond)
	hour   = int64(time.Hour / time.Millisecond)

	// slack is how far a guess of the server's clock may be off before a slice is guessed wrong;
	// that costs one more call.
	slack = int64(time.Second / time.Millisecond)
)

func minuteSlice(ms int64) string { return "m" + strconv.FormatInt(ms/minute, 10) }
func hourSlice(ms int64) string   { return "h" + strconv.FormatInt(ms/hour, 10) }

// sliceName is how a slice is shown: "2026-11-20 23:54", or "2026-11-20 23h".
func (st *state) sliceName() string {
	at := time.UnixMilli(st.indexed).UTC()
	if st.coarse {
		return at.Format("2006-01-02 15h")
	}
	return at.Format("2006-01-02 15:04")
}
