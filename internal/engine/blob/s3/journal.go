package s3

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// States of a journal, as stored.
const (
	stateOpen    = ""
	stateSealing = "sealing"
	stateSealed  = "sealed"
	stateRemoved = "removed"
)

// journals runs the scripts on the journals of all uploads.
type journals struct {
	redis  redis.UniversalClient
	batch  *batcher
	prefix string // of all keys: Options.Namespace
}

// keys returns the two Redis keys of an upload: the hash of the journal, then the hash of the
// leases.
func (j journals) keys(id drive.UploadID) []string {
	tag := j.prefix + ":{u:" + id.String() + "}:"
	return []string{tag + "j", tag + "l"}
}

// match returns the key pattern of all journals.
func (j journals) match() string { return j.prefix + ":{u:*}:j" }

// idOf returns the upload of a journal's key; false for other keys.
func (j journals) idOf(key string) (drive.UploadID, bool) {
	rest, ok := strings.CutPrefix(key, j.prefix+":{u:")
	name, isJournal := strings.CutSuffix(rest, "}:j")
	if !ok || !isJournal {
		return drive.UploadID{}, false
	}
	id, err := drive.ParseID[drive.UploadID](name)
	return id, err == nil
}

// answer is the reply of a script: a verdict such as "ok" and then its values (see prelude).
type answer []any

// verdict returns the first element.
func (a answer) verdict() string { return a.text(0) }

// text returns element i; empty if missing or not a string.
func (a answer) text(i int) string {
	if i >= len(a) {
		return ""
	}
	s, _ := a[i].(string)
	return s
}

// number returns element i as an integer; 0 if it is not one.
func (a answer) number(i int) int64 {
	n, _ := strconv.ParseInt(a.text(i), 10, 64)
	return n
}

// asError converts the verdict of a script to an error: nil for ok, NotFound for none and removed,
// WrongState for state and fenced, InProgress for busy, errMoved for a journal that has changed,
// blob.PartExistsError for an accepted part, and Unavailable for a lost lease.
func (a answer) asError() error {
	switch v := a.verdict(); v {
	case "ok":
		return nil
	case "none":
		return drive.Fail(drive.NotFound)
	case "state":
		if a.text(1) == stateRemoved {
			return drive.Fail(drive.NotFound)
		}
		return drive.Fail(drive.WrongState, "state", "sealing")
	case "fenced":
		return drive.Wrap(fmt.Errorf("gen is fenced by %s", a.text(1)), drive.WrongState)
	case "busy":
		return drive.Fail(drive.InProgress)
	case "moved":
		return errMoved
	case "there":
		e, err := decodeEntry([]byte(a.text(1)))
		if err != nil {
			return err
		}
		return &blob.PartExistsError{Part: e.Part}
	case "lost":
		return drive.Wrap(errLease, drive.Unavailable)
	default:
		return fmt.Errorf("script of the journal answered %q", v)
	}
}

// batchedScripts holds the scripts that run once per part. Their calls are batched; scripts that
// transfer whole journals would delay the batch.
var batchedScripts = map[*redis.Script]bool{claimScript: true, appendScript: true, releaseScript: true, renewScript: true}

// run runs a script on the journal of id. On an error the script may have run anyway.
func (j journals) run(ctx context.Context, s *redis.Script, id drive.UploadID, args ...any) (answer, error) {
	if batchedScripts[s] {
		return j.batch.run(ctx, s, j.keys(id), args...)
	}
	v, err := s.Run(ctx, j.redis, j.keys(id), args...).Slice()
	return v, answerError(err)
}

// journal is the decoded journal of one upload.
type journal struct {
	state, mpu, incarnation string         // state (see above), id of the multipart upload, and incarnation
	fenced                  int64          // highest gen that was fenced
	last, now               drive.Time     // when the last part was accepted, and the time of loading; by the clock of Redis
	server, serverNow       string         // Redis server on which the journal was last known complete, and the server that answered
	unsealing               string         // id of the multipart upload that an Unseal is filling
	leftETag                string         // ETag of the content that an Unseal left in place
	entries                 map[int]entry  // accepted parts, by number
	raw                     map[int]string // their encoding, for compare-and-set
	unconfirmed             map[int]int64  // bytes that may be in the store without an entry, by part
	tails                   map[int]tail   // beginnings of parts, by number
	rawTails                map[int]string // their encoding, for compare-and-set
	writing                 map[int]bool   // parts with a live lease
}

// load reads and decodes the journal of id from Redis; found is false without an error if there is
// none, which may also mean that Redis lost it. It fails if a field is damaged.
func (j journals) load(ctx context.Context, id drive.UploadID) (got *journal, found bool, err error) {
	a, err := j.run(ctx, loadScript, id)
	if err != nil || a.verdict() == "none" {
		return nil, false, err
	}
	if err := a.asError(); err != nil {
		return nil, false, err
	}
	got = &journal{
		now: drive.Time(a.number(3)), serverNow: a.text(4),
		entries: map[int]entry{}, raw: map[int]string{}, unconfirmed: map[int]int64{}, writing: map[int]bool{},
		tails: map[int]tail{}, rawTails: map[int]string{},
	}
	for field, value := range pairs(a[1]) {
		if err := got.decodeField(field, value); err != nil {
			return nil, false, fmt.Errorf("journal of upload %s, field %q: %w", id, field, err)
		}
	}
	for field, value := range pairs(a[2]) {
		got.decodeLease(field, value)
	}
	return got, true, nil
}

// entry returns the encoded entry of part n; empty if there is none.
func (j journals) entry(ctx context.Context, id drive.UploadID, n int) (string, error) {
	return j.field(ctx, id, strconv.Itoa(n))
}

// field returns one field of the journal of id; empty without an error if the field or the journal
// is missing.
func (j journals) field(ctx context.Context, id drive.UploadID, name string) (string, error) {
	v, err := j.redis.HGet(ctx, j.keys(id)[0], name).Result()
	if errors.Is(err, redis.Nil) {
		return "", nil
	}
	return v, answerError(err)
}

// pairs iterates over the fields and values in the reply of HGETALL. A reply of another type yields
// nothing.
func pairs(v any) func(yield func(field, value string) bool) {
	all, _ := v.([]any)
	return func(yield func(string, string) bool) {
		for i := 0; i+1 < len(all); i += 2 {
			field, _ := all[i].(string)
			value, _ := all[i+1].(string)
			if !yield(field, value) {
				return
			}
		}
	}
}

// decodeField decodes one field of the journal into j; names of one letter are its state, other
// names are parts and tails. It fails if the value is damaged.
func (j *journal) decodeField(field, value string) (err error) {
	switch field {
	case "s":
		j.state = value
	case "m":
		j.mpu = value
	case "i":
		j.incarnation = value
	case "r":
		j.server = value
	case "u":
		j.unsealing = value
	case "e":
		j.leftETag = value
	case "f":
		j.fenced, err = strconv.ParseInt(value, 10, 64)
	case "t":
		var ms int64
		ms, err = strconv.ParseInt(value, 10, 64)
		j.last = drive.Time(ms)
	default:
		return j.decodePart(field, value)
	}
	return err
}

// decodePart decodes the field of an entry, tail or unconfirmed bytes into j. It ignores names that
// are not a part number, which later versions add. It fails with errEntry if the value is damaged
// or belongs to another part.
func (j *journal) decodePart(field, value string) error {
	number, isUnconfirmed := strings.CutPrefix(field, "o")
	number, isTail := strings.CutPrefix(number, "p")
	n, err := strconv.Atoi(number)
	switch {
	case err != nil:
		return nil //nolint:nilerr // not a number: a field of a later version
	case isUnconfirmed:
		j.unconfirmed[n], err = strconv.ParseInt(value, 10, 64)
		return err
	case isTail:
		j.tails[n], err = decodeTail(value)
		j.rawTails[n] = value
		return err
	}
	e, err := decodeEntry([]byte(value))
	if err == nil && e.N != n {
		err = errEntry
	}
	j.entries[n], j.raw[n] = e, value
	return err
}

// maxLease is longer than any lease, in ms. A lease that ends later was taken under a clock
// that was ahead, and is ignored.
const maxLease = 600_000

// decodeLease sets j.writing for the part of a lease, unless the lease has expired, lies further
// ahead than maxLease, or is damaged.
func (j *journal) decodeLease(field, value string) {
	n, err := strconv.Atoi(field)
	words := strings.Fields(value)
	if err != nil || len(words) != 4 {
		return
	}
	if expiry, err := strconv.ParseInt(words[3], 10, 64); err == nil && expiry > int64(j.now) && expiry <= int64(j.now)+maxLease {
		j.writing[n] = true
	}
}

// complete reports whether the journal can be trusted: Redis has neither restarted nor failed over
// since the last comparison with the store. A Redis that hides its run id is trusted.
func (j *journal) complete() bool { return j.serverNow == "" || j.server == j.serverNow }

// sorted returns the entries ordered by N.
func (j *journal) sorted() []entry {
	return slices.SortedFunc(maps.Values(j.entries), func(a, b entry) int { return cmp.Compare(a.N, b.N) })
}

// staged converts the journal to blob.Staged. Held includes the unconfirmed bytes. Suspect stays
// false.
func (j *journal) staged() blob.Staged {
	s := blob.Staged{Last: j.last, Now: j.now, Writing: len(j.writing)}
	for _, e := range j.sorted() {
		s.Parts = append(s.Parts, e.Part)
		s.Held += e.Size
	}
	for _, n := range slices.Sorted(maps.Keys(j.tails)) {
		s.Tails = append(s.Tails, j.tails[n].Part)
		s.Held += j.tails[n].Size
	}
	for _, n := range j.unconfirmed {
		s.Held += drive.ByteSize(n)
	}
	return s
}

// missing reports whether the entries are not exactly the parts of a file of size bytes: numbered
// from 0 without a gap, all but the last of partSize.
func (j *journal) missing(size, partSize drive.ByteSize) bool {
	var sum drive.ByteSize
	for n, e := range j.entries {
		sum += e.Size
		if n >= len(j.entries) || e.Size != partSize && n != len(j.entries)-1 {
			return true
		}
	}
	return sum != size
}

// randomID returns a random name of 16 characters.
func randomID() string { return rand.Text()[:16] }

// cleanupTime bounds cleanup after a failure, which continues after the client is gone.
const cleanupTime = 5 * time.Second

// cleanupContext returns a context for cleanup: it ignores the cancellation of ctx and ends after
// cleanupTime.
func cleanupContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
}
