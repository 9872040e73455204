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

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
)

// States of a journal.
const (
	open    = ""
	sealing = "sealing"
	sealed  = "sealed"
	removed = "removed"
)

// journals runs the scripts.
type journals struct {
	redis  redis.UniversalClient
	batch  *batcher
	prefix string
}

func (j journals) keys(id drive.UploadID) []string {
	tag := j.prefix + ":{u:" + id.String() + "}:"
	return []string{tag + "j", tag + "l"}
}

// match is the pattern of all journals' keys.
func (j journals) match() string { return j.prefix + ":{u:*}:j" }

// idOf returns whose journal a key is.
func (j journals) idOf(key string) (drive.UploadID, bool) {
	rest, ok := strings.CutPrefix(key, j.prefix+":{u:")
	name, isJournal := strings.CutSuffix(rest, "}:j")
	if !ok || !isJournal {
		return drive.UploadID{}, false
	}
	id, err := drive.ParseID[drive.UploadID](name)
	return id, err == nil
}

// answer is what a script returned: a verdict and what belongs to it.
type answer []any

func (a answer) verdict() string { return a.text(0) }

func (a answer) text(i int) string {
	if i >= len(a) {
		return ""
	}
	s, _ := a[i].(string)
	return s
}

func (a answer) number(i int) int64 {
	n, _ := strconv.ParseInt(a.text(i), 10, 64)
	return n
}

// refused returns the error that a verdict is, nil for "ok".
func (a answer) refused() error {
	switch v := a.verdict(); v {
	case "ok":
		return nil
	case "none":
		return drive.Fail(drive.NotFound)
	case "state":
		if a.text(1) == removed {
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
		return &blob.ThereError{Part: e.Part}
	case "lost":
		return drive.Wrap(errLease, drive.Unavailable)
	default:
		return fmt.Errorf("script of the journal answered %q", v)
	}
}

// small are the scripts that each part needs: their calls go together. What carries whole journals
// would make them wait.
var small = map[*redis.Script]bool{claimScript: true, appendScript: true, releaseScript: true, extendScript: true}

// run runs a script on the journal of id. An error means that there is no answer: the script may
// have run all the same.
func (j journals) run(ctx context.Context, s *redis.Script, id drive.UploadID, args ...any) (answer, error) {
	if small[s] {
		return j.batch.run(ctx, s, j.keys(id), args...)
	}
	v, err := s.Run(ctx, j.redis, j.keys(id), args...).Slice()
	return v, answerError(err)
}

// journal is what was read of one.
type journal struct {
	state, mpu, incarnation string
	fenced                  int64
	last, now               drive.Time
	reign, reignNow         string         // of the Redis that it was complete on, and of the one that answered
	unsealing               string         // multipart upload that an Unseal fills
	left                    string         // ETag of content that an Unseal has left
	entries                 map[int]entry  // accepted parts
	raw                     map[int]string // their encoding, to compare
	loose                   map[int]int64  // bytes that may lie at the store without an entry
	tails                   map[int]tail   // beginnings of parts
	rawTails                map[int]string // their encoding, to compare
	writing                 map[int]bool   // parts with a lease
}

// load reads the journal of id; found is false when there is none.
func (j journals) load(ctx context.Context, id drive.UploadID) (got *journal, found bool, err error) {
	a, err := j.run(ctx, loadScript, id)
	if err != nil || a.verdict() == "none" {
		return nil, false, err
	}
	if err := a.refused(); err != nil {
		return nil, false, err
	}
	got = &journal{
		now: drive.Time(a.number(3)), reignNow: a.text(4),
		entries: map[int]entry{}, raw: map[int]string{}, loose: map[int]int64{}, writing: map[int]bool{},
		tails: map[int]tail{}, rawTails: map[int]string{},
	}
	for field, value := range pairs(a[1]) {
		if err := got.read(field, value); err != nil {
			return nil, false, fmt.Errorf("journal of upload %s, field %q: %w", id, field, err)
		}
	}
	for field, value := range pairs(a[2]) {
		got.readLease(field, value)
	}
	return got, true, nil
}

// entry returns the entry of part n as it is kept, empty when there is none.
func (j journals) entry(ctx context.Context, id drive.UploadID, n int) (string, error) {
	return j.field(ctx, id, strconv.Itoa(n))
}

func (j journals) field(ctx context.Context, id drive.UploadID, name string) (string, error) {
	v, err := j.redis.HGet(ctx, j.keys(id)[0], name).Result()
	if errors.Is(err, redis.Nil) {
		return "", nil
	}
	return v, answerError(err)
}

// pairs iterates over what HGETALL returned.
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

func (j *journal) read(field, value string) (err error) {
	switch field {
	case "s":
		j.state = value
	case "m":
		j.mpu = value
	case "i":
		j.incarnation = value
	case "r":
		j.reign = value
	case "u":
		j.unsealing = value
	case "e":
		j.left = value
	case "f":
		j.fenced, err = strconv.ParseInt(value, 10, 64)
	case "t":
		var ms int64
		ms, err = strconv.ParseInt(value, 10, 64)
		j.last = drive.Time(ms)
	default:
		return j.readPart(field, value)
	}
	return err
}

// readPart reads an entry or loose bytes. A field that a later version has added is passed over.
func (j *journal) readPart(field, value string) error {
	number, isLoose := strings.CutPrefix(field, "o")
	number, isTail := strings.CutPrefix(number, "p")
	n, err := strconv.Atoi(number)
	switch {
	case err != nil:
		return nil //nolint:nilerr // no number: not ours
	case isLoose:
		j.loose[n], err = strconv.ParseInt(value, 10, 64)
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

// longestLease, in ms, is more than any lasts: one that ends later was taken by a clock that was
// ahead.
const longestLease = 600_000

func (j *journal) readLease(field, value string) {
	n, err := strconv.Atoi(field)
	words := strings.Fields(value)
	if err != nil || len(words) != 4 {
		return
	}
	if expiry, err := strconv.ParseInt(words[3], 10, 64); err == nil && expiry > int64(j.now) && expiry <= int64(j.now)+longestLease {
		j.writing[n] = true
	}
}

// complete reports whether Redis has not started again, nor failed over, since the journal was
// compared with the store: what it acknowledged last may be lost then. A Redis that does not tell
// its run id is taken at its word.
func (j *journal) complete() bool { return j.reignNow == "" || j.reign == j.reignNow }

// sorted returns the entries in order of N.
func (j *journal) sorted() []entry {
	return slices.SortedFunc(maps.Values(j.entries), func(a, b entry) int { return cmp.Compare(a.N, b.N) })
}

// staged returns what the port shows.
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
	for _, n := range j.loose {
		s.Held += drive.ByteSize(n)
	}
	return s
}

// missing reports whether the entries do not make up a file of size bytes.
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

// randomID returns a name for something that lives as long as a journal.
func randomID() string { return rand.Text()[:16] }

// tidyTime is how long what must be done after a failure may take, whoever has gone meanwhile.
const tidyTime = 5 * time.Second

// detached returns a context for that.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), tidyTime)
}
