package nextcloud

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"smartdrive/internal/base/digest"
	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/head/dav"
	"smartdrive/internal/head/server"
	"smartdrive/internal/usecase/upload"
)

// A file that comes in chunks is one upload, which is filled from its beginning. The client names
// the transfer and numbers the chunks, or names each by its range of bytes:
//
//	MKCOL    uploads/USER/ID            begins it; with a Destination (version 2) it knows its place
//	PUT      uploads/USER/ID/00001      a chunk; or ID/000000000000000-000000010485760
//	PROPFIND uploads/USER/ID            what has come, for clients that go on
//	MOVE     uploads/USER/ID/.file      makes the file (N4)
//	DELETE   uploads/USER/ID            gives it up
//
// Beside the upload stands which numbers have come (chunks). It may be behind the offset by the
// chunk that was written last: that one is then taken for what has come behind it. A chunk that
// comes again is refused unless it is the same as before, and so is one that belongs before the
// first one: the file would lack what was thrown away.

// chunks is what is kept of the numbers of chunks.
type chunks struct {
	First int64          `json:"first"`
	Last  int64          `json:"last"`
	Upto  drive.ByteSize `json:"upto"`            // where it ends
	Bytes bool           `json:"bytes,omitempty"` // they are named by their range
	None  bool           `json:"none,omitempty"`  // none has come
	Sums  []noted        `json:"sums,omitempty"`  // of the last maxNoted ones
}

// noted is what is kept of the content of a chunk.
type noted struct {
	N   int64  `json:"n"`
	Sum []byte `json:"s"` // the beginning of its SHA-256
}

const (
	maxNoted = 64 // more than a client sends at the same time; upload.MaxMetadata has room for so many
	sumSize  = 12 // bytes
)

// sum returns the sum of a chunk that has come; nil: it is not known.
func (k chunks) sum(n int64) []byte {
	for _, c := range k.Sums {
		if c.N == n {
			return c.Sum
		}
	}
	return nil
}

func (k chunks) text() string {
	raw, _ := json.Marshal(k) // numbers and booleans
	return string(raw)
}

// transfer is a chunked upload of the caller's.
type transfer struct {
	id   string
	view upload.View
	pos  upload.Position
	has  chunks
}

// mark is the fingerprint of the uploads of a transfer.
func mark(id string) string { return "nextcloud " + id }

const maxTransferID = 100 // bytes; the fingerprint has room for so much

func (c *call) uploads(ctx context.Context, below []string) error {
	if len(below) == 0 {
		if c.r.Method == "PROPFIND" {
			return c.multistatus(response(c.r.URL.EscapedPath(), "<d:resourcetype><d:collection/></d:resourcetype>"))
		}
		return c.methodNotAllowed("PROPFIND")
	}
	if len(below) > 2 || len(below[0]) > maxTransferID {
		return drive.Fail(drive.NotFound)
	}
	id, name := below[0], ""
	if len(below) == 2 {
		name = below[1]
	}
	switch {
	case name == "" && c.r.Method == "MKCOL":
		return c.beginChunks(ctx, id)
	case name == "" && c.r.Method == "PROPFIND":
		return c.listChunks(ctx, id)
	case name == "" && c.r.Method == http.MethodDelete:
		return c.dropChunks(ctx, id)
	case name == ".file" && c.r.Method == "MOVE":
		return c.assemble(ctx, id)
	case name != "" && name != ".file" && c.r.Method == http.MethodPut:
		return c.putChunk(ctx, id, name)
	}
	return c.methodNotAllowed("MKCOL", "PROPFIND", "DELETE", "PUT", "MOVE")
}

// target is where a file goes.
type target struct {
	drive.Address

	url  *url.URL
	view dav.View // that it is in
}

// destination is where the file goes; ok is false where the request does not say.
func (c *call) destination(ctx context.Context) (to target, ok bool, err error) {
	text := c.r.Header.Get("Destination")
	if text == "" {
		return to, false, nil
	}
	if to.url, err = url.Parse(text); err != nil {
		return to, false, drive.Wrap(err, drive.BadRequest, "field", "Destination", "reason", string(drive.Malformed), "expected", "a URL")
	}
	prefix := "/remote.php/dav/files/" + c.at(3) + "/"
	if strings.Contains(to.url.Path, "/remote.php/webdav/") {
		prefix = "/remote.php/webdav/"
	}
	to.view = c.view(ctx, prefix)
	to.Address, err = c.DAV.Address(ctx, c.r, to.view, to.url)
	return to, err == nil, err
}

// totalLength is OC-Total-Length, the size of the whole file.
func (c *call) totalLength() (drive.ByteSize, error) {
	text := c.r.Header.Get("OC-Total-Length")
	if text == "" {
		return blob.UnknownSize, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, drive.Wrap(err, drive.BadRequest, "field", "OC-Total-Length", "reason", string(drive.Malformed), "expected", "a number of bytes")
	}
	return drive.ByteSize(n), nil
}

// beginChunks begins a transfer. One that was begun already is not begun again: what has come of it
// may be of another content.
func (c *call) beginChunks(ctx context.Context, id string) error {
	key := c.who.User.String() + id
	l := c.lines.join(key)
	defer c.lines.leave(key, l)
	ctx, end, err := c.lines.enter(ctx, l, "")
	if err != nil {
		return err
	}
	defer end()
	if _, err := c.find(ctx, id); err == nil {
		return c.methodNotAllowed("PROPFIND", "DELETE")
	} else if !drive.IsKind(err, drive.NotFound) {
		return err
	}
	size, err := c.totalLength()
	if err != nil {
		return err
	}
	at, knows, err := c.destination(ctx)
	if err != nil {
		return err
	}
	begin := upload.Begin{
		Place: at.Place, Path: at.Path, Conflict: drive.ConflictReplace, Size: size, Fingerprint: mark(id), Protocol: upload.Nextcloud,
		Metadata: chunks{None: true}.text(),
	}
	if !knows { // it has a place when it is there: see assemble
		begin.Path, begin.Conflict = drive.Path{drive.Name(".upload-" + drive.NewID[drive.UploadID]().String())}, drive.ConflictRename
	}
	if _, err := c.Uploads.Begin(ctx, c.who, begin, nil); err != nil {
		if drive.IsKind(err, drive.NotFound) {
			err = drive.Wrap(err, drive.ParentGone)
		}
		return err
	}
	c.w.WriteHeader(http.StatusCreated)
	return nil
}

// find returns a transfer of the caller's that is open, in whatever account it is: that of its
// destination, where the request says which, the caller's own, or that of any place that the caller
// sees.
func (c *call) find(ctx context.Context, id string) (transfer, error) {
	likely := []drive.AccountID{c.who.Account}
	if at, ok, err := c.destination(ctx); err == nil && ok && at.Place != "" {
		if account, err := c.tags.AccountAt(ctx, c.who, at.Place); err == nil {
			likely = append([]drive.AccountID{account}, likely...)
		}
	}
	for _, account := range likely {
		if t, err := c.findIn(ctx, account, id); !drive.IsKind(err, drive.NotFound) {
			return t, err
		}
	}
	places, err := c.DAV.Places(ctx, c.who)
	if err != nil {
		return transfer{}, err
	}
	for _, p := range places {
		account, err := c.tags.AccountAt(ctx, c.who, p.Address)
		if drive.IsKind(err, drive.NotFound) || err == nil && slices.Contains(likely, account) {
			continue
		}
		if err != nil {
			return transfer{}, err
		}
		if t, err := c.findIn(ctx, account, id); !drive.IsKind(err, drive.NotFound) {
			return t, err
		}
		likely = append(likely, account)
	}
	return transfer{}, drive.Fail(drive.NotFound)
}

// findIn is find in one account.
func (c *call) findIn(ctx context.Context, account drive.AccountID, id string) (transfer, error) {
	const page = 500
	for q := (upload.ListQuery{User: c.who.User, Account: account, Limit: page, Open: true}); ; {
		all, err := c.Uploads.List(ctx, q)
		if err != nil {
			return transfer{}, err
		}
		for _, v := range all {
			if v.Row().Fingerprint == mark(id) {
				return c.transfer(ctx, id, v)
			}
			q.After = v.ID
		}
		if len(all) < page {
			return transfer{}, drive.Fail(drive.NotFound)
		}
	}
}

func (c *call) transfer(ctx context.Context, id string, v upload.View) (transfer, error) {
	t := transfer{id: id, view: v}
	return t, c.look(ctx, &t)
}

// look reads how far a transfer has come. It must have its turn: to look ends a chunk that comes.
func (c *call) look(ctx context.Context, t *transfer) (err error) {
	text, err := upload.Metadata(ctx, c.Uploads, c.who, t.view.ID)
	if err != nil {
		return err
	}
	t.has = chunks{}
	if err := json.Unmarshal([]byte(text), &t.has); err != nil {
		return fmt.Errorf("read the chunks of upload %s: %w", t.view.ID, err)
	}
	return nil
}

// chunkName is the name of a chunk taken apart: its number, or where its bytes begin.
type chunkName struct {
	number int64
	bytes  bool
}

func parseChunk(name string) (chunkName, error) {
	first, _, ranged := strings.Cut(name, "-")
	n, err := strconv.ParseInt(first, 10, 64)
	if err != nil || n < 0 {
		return chunkName{}, drive.Wrap(err, drive.BadName, "reason", "control")
	}
	return chunkName{n, ranged}, nil
}

// putChunk takes one chunk in.
func (c *call) putChunk(ctx context.Context, id, name string) error {
	n, err := parseChunk(name)
	if err == nil {
		err = server.RefuseEncoding(c.r)
	}
	if err == nil && c.r.ContentLength == 0 && c.r.Header.Get("Content-Length") == "" { // a proxy has lost the body
		err = drive.Fail(drive.LengthRequired)
	}
	var declared []digest.FieldDigest
	if err == nil {
		declared, err = dav.Checksums(c.r.Header)
	}
	if err != nil {
		return err
	}
	key := c.who.User.String() + id
	l := c.lines.join(key)
	defer c.lines.leave(key, l)
	early := time.NewTimer(earlyFor)
	defer early.Stop()
	for {
		done, err := c.tryChunk(ctx, l, id, name, n, declared)
		if err != nil {
			return err
		}
		if done {
			c.w.Header().Set("ETag", `"`+name+`"`)
			c.w.WriteHeader(http.StatusCreated)
			return nil
		}
		if err := c.lines.wait(ctx, l, early.C); err != nil {
			return err
		}
	}
}

// tryChunk takes a chunk in if it is its turn. done is false when those before it are missing.
func (c *call) tryChunk(ctx context.Context, l *line, id, name string, n chunkName, declared []digest.FieldDigest) (done bool, err error) {
	ctx, end, err := c.lines.enter(ctx, l, name)
	if err != nil {
		return false, err
	}
	defer end()
	t, err := c.find(ctx, id)
	if err != nil {
		return false, err
	}
	if t.pos, err = c.Uploads.Offset(ctx, c.who, t.view.ID); err != nil {
		return false, err
	}
	size := drive.ByteSize(c.r.ContentLength)
	if size < 0 {
		size = blob.UnknownSize
	}
	skip, verdict := t.has.judge(n, size, t.pos.Offset)
	differs := drive.Fail(drive.OffsetMismatch, "offset", t.pos.Offset, "sent", int64(size))
	verify, sum := digest.NewVerifier(declared), sha256.New()
	body := io.TeeReader(server.Incoming(c.r), sum)
	switch verdict {
	case later:
		return false, nil
	case has:
		if _, err := io.Copy(verify, body); err != nil {
			return false, err
		}
		if err := verify.Verify(); err != nil {
			return false, err
		}
		if !t.has.noted(n.number) {
			return true, c.note(ctx, t, n, t.pos.Offset, sum)
		}
		if !bytes.Equal(t.has.sum(n.number), sum.Sum(nil)[:sumSize]) {
			return false, differs
		}
		return true, nil
	case wrong:
		return false, differs
	case next:
	}
	if skip > 0 { // a part of this chunk has come before
		if _, err := io.CopyN(verify, body, int64(skip)); err != nil {
			return false, err
		}
		if size != blob.UnknownSize {
			size -= skip
		}
	}
	a := upload.Append{Offset: t.pos.Offset, Size: size, Verify: verify} // as a whole or not at all (N3)
	offset, err := c.Uploads.Append(ctx, c.who, t.view.ID, a, body)
	if err != nil {
		return false, err
	}
	return true, c.note(ctx, t, n, offset, sum)
}

// note keeps the number of a chunk that has come, and the sum of it.
func (c *call) note(ctx context.Context, t transfer, n chunkName, offset drive.ByteSize, sum hash.Hash) error {
	now := chunks{First: t.has.First, Last: n.number, Upto: offset, Bytes: n.bytes}
	if t.has.None {
		now.First = n.number
	}
	now.Sums = append(slices.Clone(t.has.Sums), noted{n.number, sum.Sum(nil)[:sumSize]})
	now.Sums = now.Sums[max(0, len(now.Sums)-maxNoted):]
	return upload.SetMetadata(context.WithoutCancel(ctx), c.Uploads, c.who, t.view.ID, now.text())
}

// verdict is what becomes of a chunk.
type verdict uint8

const (
	next  verdict = iota // it is to be added
	has                  // it has come before
	later                // those before it are missing
	wrong                // it does not fit
)

// judge says what becomes of a chunk of a size, or of unknown size, where so much of the file has
// come; skip is how many of its bytes are there already.
func (k chunks) judge(n chunkName, size, offset drive.ByteSize) (skip drive.ByteSize, v verdict) {
	extra := offset - k.Upto // has come and is not noted: it belongs to the next one
	switch {
	case !k.None && k.Bytes != n.bytes:
		return 0, wrong
	case k.noted(n.number):
		return 0, has
	case n.bytes && drive.ByteSize(n.number) > offset, !n.bytes && n.number > max(k.Last, 0)+1:
		return 0, later
	case n.bytes && drive.ByteSize(n.number) == offset:
		return 0, next
	case n.bytes && drive.ByteSize(n.number) != k.Upto, !n.bytes && !k.None && n.number <= k.Last:
		return 0, wrong
	case extra > 0 && size == extra:
		return 0, has
	case extra > 0 && size != blob.UnknownSize && size < extra:
		return 0, wrong
	}
	return extra, next
}

// noted reports whether a chunk has come and its sum is known.
func (k chunks) noted(n int64) bool { return k.sum(n) != nil }

// listChunks shows what has come, for clients that add up the sizes and go on behind it. Only the
// sum of the sizes is known: each chunk is shown with its share.
func (c *call) listChunks(ctx context.Context, id string) error {
	t, err := c.find(ctx, id)
	if err != nil {
		return err
	}
	href := strings.TrimSuffix(c.r.URL.EscapedPath(), "/") + "/"
	all := []string{response(href, "<d:resourcetype><d:collection/></d:resourcetype>")}
	entry := func(name string, size drive.ByteSize) {
		all = append(all, response(href+name, fmt.Sprintf("<d:resourcetype/><d:getcontentlength>%d</d:getcontentlength><d:getetag>&quot;%s&quot;</d:getetag>", size, name)))
	}
	switch k := t.has; {
	case k.None || c.r.Header.Get("Depth") == "0":
	case k.Bytes:
		entry(fmt.Sprintf("%015d-%015d", 0, k.Upto), k.Upto)
	default:
		count := drive.ByteSize(k.Last - k.First + 1)
		for n := k.First; n <= k.Last; n++ {
			size := k.Upto / count
			if n == k.Last {
				size = k.Upto - size*(count-1)
			}
			entry(fmt.Sprintf("%05d", n), size)
		}
	}
	return c.multistatus(all...)
}

// dropChunks gives a transfer up.
func (c *call) dropChunks(ctx context.Context, id string) error {
	t, err := c.find(ctx, id)
	if err == nil {
		err = c.Uploads.Cancel(ctx, c.who, t.view.ID)
	}
	if err == nil {
		c.w.WriteHeader(http.StatusNoContent)
	}
	return err
}

// assemble makes the file.
func (c *call) assemble(ctx context.Context, id string) error {
	key := c.who.User.String() + id
	l := c.lines.join(key)
	defer c.lines.leave(key, l)
	ctx, end, err := c.lines.enter(ctx, l, ".file")
	if err != nil {
		return err
	}
	defer end()
	t, err := c.find(ctx, id)
	if err != nil {
		return err
	}
	at, ok, err := c.destination(ctx)
	if err == nil && !ok {
		err = drive.Bad("Destination", drive.Required)
	}
	if err != nil {
		return err
	}
	done, err := c.completion(ctx, t, at)
	if err != nil {
		return err
	}
	created, err := c.seal(ctx, t, done)
	if err != nil {
		return err
	}
	return c.answerFile(ctx, at.Address, created)
}

// completion checks what a MOVE says of the file: that all of it has come, and that what it
// replaces is what the client has seen.
func (c *call) completion(ctx context.Context, t transfer, at target) (done upload.Complete, err error) {
	total, err := c.totalLength()
	if err != nil {
		return done, err
	}
	pos, err := c.Uploads.Offset(ctx, c.who, t.view.ID)
	if err != nil {
		return done, err
	}
	if total != blob.UnknownSize && total != pos.Offset || total == blob.UnknownSize && t.has.None {
		return done, drive.Fail(drive.BadRequest, "field", "body", "reason", "cut")
	}
	folder, name, ok := at.Path.Split()
	if !ok {
		return done, drive.Fail(drive.BadName, "reason", "root")
	}
	parent, err := c.Files.GetByPath(ctx, c.who, drive.Address{Place: at.Place, Path: folder})
	if err != nil {
		if drive.IsKind(err, drive.NotFound) {
			err = drive.Wrap(err, drive.ParentGone)
		}
		return done, err
	}
	if err := c.DAV.MayPut(ctx, c.r, at.view, at.url); err != nil {
		return done, err
	}
	mtime, err := mtimeOf(c.r.Header)
	if err != nil {
		return done, err
	}
	declared, err := dav.Checksums(c.r.Header)
	if err != nil {
		return done, err
	}
	sums := digest.Set{}
	for _, d := range declared {
		switch d.Algo {
		case digest.FieldSHA256:
			sums[digest.SHA256] = d.Value
		case digest.FieldMD5:
			sums[digest.MD5] = d.Value
		default: // nothing has it of the whole file
		}
	}
	size := pos.Offset
	return upload.Complete{
		Digests: sums, Parent: parent.ID, Name: name, Conflict: drive.ConflictReplace, Size: &size, MTime: mtime, Mime: drive.MimeOf(name),
	}, nil
}

// sealFor is how long a MOVE waits for a file that is slow to be sealed; the client sends it again
// then. Less than clients and proxies commonly wait.
const sealFor = 50 * time.Second

func (c *call) seal(ctx context.Context, t transfer, done upload.Complete) (created bool, err error) {
	for deadline := time.Now().Add(sealFor); ; {
		v, _, err := c.Uploads.Complete(ctx, c.who, t.view.ID, done)
		switch {
		case err != nil:
			return false, err
		case v.State == upload.Done.Public():
			return v.Node != nil && v.Node.Rev == 1, nil
		case time.Now().After(deadline):
			return false, drive.Fail(drive.InProgress, "retry_after", 5)
		}
	}
}

// answerFile says what the file is now.
func (c *call) answerFile(ctx context.Context, at drive.Address, created bool) error {
	n, err := c.Files.GetByPath(ctx, c.who, at)
	if err != nil && !errors.Is(err, context.Canceled) && !drive.IsKind(err, drive.NotFound) {
		return err
	}
	if err == nil {
		e := dav.Entry{NodeView: n, Place: at.Place, Path: at.Path, Node: n.ID}
		describer{c}.header(ctx, c.w.Header(), c.who, e)
		c.w.Header().Set("ETag", e.Tag())
	}
	if c.r.Header.Get("X-OC-Mtime") != "" {
		c.w.Header().Set("X-OC-Mtime", "accepted")
	}
	status := http.StatusNoContent
	if created {
		status = http.StatusCreated
	}
	c.w.WriteHeader(status)
	return nil
}

// mtimeOf is X-OC-Mtime, the time of the client's file in Unix seconds; zero: it is not sent.
func mtimeOf(h http.Header) (drive.Time, error) {
	text := strings.TrimSpace(h.Get("X-OC-Mtime"))
	if text == "" {
		return 0, nil
	}
	const years = 253_402_300_799 // up to the end of 9999, in seconds
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || !(seconds >= 0 && seconds <= years) {
		return 0, drive.Wrap(err, drive.BadRequest, "field", "X-OC-Mtime", "reason", string(drive.Malformed), "expected", "Unix seconds")
	}
	return drive.Time(seconds * 1000), nil
}
