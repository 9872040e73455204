package nextcloud

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
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
//	PUT      uploads/USER/ID/00001      a chunk; or ID/000000000000000-000000010485760, or where it begins
//	PROPFIND uploads/USER/ID            what has come, for clients that go on
//	MOVE     uploads/USER/ID/.file      makes the file (N4)
//	DELETE   uploads/USER/ID            gives it up
//
// Beside the upload stands which numbers have come (chunks). It may be behind the offset by the
// chunk that was written last: that one is then taken for what has come behind it. A chunk that
// comes again is refused unless it is the same as before, and so is one that belongs before the
// first one: the file would lack what was thrown away. Older clients number the chunks from 0 and
// send several at a time: until the first has come, chunk 1 of a client that does not name its
// destination waits for chunk 0 for a moment (ZeroWithin).

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
	if err := c.DAV.CheckHost(c.r, to.url); err != nil {
		return to, false, err
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
		Metadata: chunks{None: true, From1: knows}.text(),
	}
	if !knows { // it has a place when it is there: see assemble
		begin.Path, begin.Conflict = drive.Path{drive.Name(".upload-" + drive.NewID[drive.UploadID]().String())}, drive.ConflictRename
	}
	v, err := c.Uploads.Begin(ctx, c.who, begin, nil)
	if err != nil {
		if drive.IsKind(err, drive.NotFound) {
			err = drive.Wrap(err, drive.ParentGone)
		}
		return err
	}
	c.lines.note(key, v.ID)
	c.w.WriteHeader(http.StatusCreated)
	return nil
}

// find returns a transfer of the caller's that is open.
func (c *call) find(ctx context.Context, id string) (transfer, error) {
	key := c.who.User.String() + id
	if upload, known := c.lines.recall(key); known {
		t, err := c.recalled(ctx, id, upload)
		if !drive.IsKind(err, drive.NotFound, drive.Gone) {
			return t, err
		}
		c.lines.forget(key)
	}
	t, err := c.search(ctx, id)
	if err == nil {
		c.lines.note(key, t.view.ID)
	}
	return t, err
}

// recalled is find of the upload that the transfer was when it was found last. One into a folder
// that the caller may not send to any more ends, so that its reservation goes back at once.
func (c *call) recalled(ctx context.Context, id string, was drive.UploadID) (transfer, error) {
	v, err := c.Uploads.Get(ctx, c.who, was)
	if drive.IsKind(err, drive.NotFound, drive.Forbidden) {
		if err := upload.EndRevoked(ctx, c.Uploads, c.who, was); err != nil { // not NotFound: the next request must find it to end it
			return transfer{}, fmt.Errorf("end a transfer that may not go on: %w", err)
		}
		return transfer{}, drive.Fail(drive.NotFound)
	}
	if err == nil && (!v.Row().State.Open() || v.Row().Fingerprint != mark(id)) {
		err = drive.Fail(drive.NotFound)
	}
	if err != nil {
		return transfer{}, err
	}
	return c.transfer(ctx, id, v)
}

// search is find of a transfer in whatever account it is: that of its destination, where the
// request says which, the caller's own, or that of any place that the caller sees.
func (c *call) search(ctx context.Context, id string) (transfer, error) {
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
		if slices.Contains(likely, p.Account) {
			continue
		}
		if t, err := c.findIn(ctx, p.Account, id); !drive.IsKind(err, drive.NotFound) {
			return t, err
		}
		likely = append(likely, p.Account)
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
	early, zero := patience{Timer: time.NewTimer(c.EarlyWithin), within: c.EarlyWithin}, time.NewTimer(c.ZeroWithin)
	defer early.Stop()
	defer zero.Stop()
	first := c.r.Header.Get("Destination") != "" // whether chunk 1 is the first: version 2 says it each time
	for {
		verdict, err := c.tryChunk(ctx, l, id, name, n, declared, first, &early)
		if err != nil {
			return err
		}
		deadline := early.C
		switch verdict {
		case maybe:
			deadline = zero.C
		case later:
			if early.over {
				return c.refuseEarly(ctx, l, id, n)
			}
		case next, has, wrong:
			c.w.Header().Set("ETag", `"`+name+`"`)
			c.w.WriteHeader(http.StatusCreated)
			return nil
		}
		switch late, err := c.lines.wait(ctx, l, deadline); {
		case err != nil:
			return err
		case late && verdict == maybe:
			first = true
		case late: // it looks once more, behind a chunk that just comes
			early.over = true
		}
	}
}

// patience ends the wait of a chunk when the transfer has not grown for some time.
type patience struct {
	*time.Timer

	within time.Duration
	offset drive.ByteSize
	over   bool
}

func (p *patience) saw(offset drive.ByteSize) {
	if offset != p.offset {
		p.offset, p.over = offset, false
		p.Reset(p.within)
	}
}

// refuseEarly refuses a chunk since those before it have not come, and keeps that: a MOVE makes no
// file without it.
func (c *call) refuseEarly(ctx context.Context, l *line, id string, n chunkName) error {
	ctx, end, err := c.lines.enter(ctx, l, "")
	if err != nil {
		return err
	}
	defer end()
	t, err := c.find(ctx, id)
	if err == nil && t.has.Ahead < n.number {
		t.has.Ahead = n.number
		err = upload.SetMetadata(ctx, c.Uploads, c.who, t.view.ID, t.has.text())
	}
	if err == nil {
		err = drive.Fail(drive.InProgress, "retry_after", 1)
	}
	return err
}

// tryChunk takes a chunk in if it is its turn: not when those before it are missing (later), or
// perhaps are (maybe), unless it is known that it is the first.
func (c *call) tryChunk(
	ctx context.Context, l *line, id, name string, n chunkName, declared []digest.FieldDigest, first bool, early *patience,
) (_ verdict, err error) {
	ctx, end, err := c.lines.enter(ctx, l, name)
	if err != nil {
		return wrong, err
	}
	defer end()
	t, err := c.find(ctx, id)
	if err != nil {
		return wrong, err
	}
	if t.pos, err = c.Uploads.Offset(ctx, c.who, t.view.ID); err != nil {
		return wrong, err
	}
	early.saw(t.pos.Offset)
	size := drive.ByteSize(c.r.ContentLength)
	if size < 0 {
		size = blob.UnknownSize
	}
	t.has.From1 = t.has.From1 || first
	if t.has.isPlace(n) {
		n.bytes, t.has.Bytes = true, true
	}
	skip, verdict := t.has.judge(n, size, t.pos.Offset)
	differs := drive.Fail(drive.OffsetMismatch, "offset", t.pos.Offset, "sent", int64(size))
	verify, sum := digest.NewVerifier(declared), sha256.New()
	in := server.Incoming(c.r)
	defer context.AfterFunc(ctx, func() { _ = in.Close() })() // when the same chunk comes once more
	body := upload.Ending(io.TeeReader(in, sum), in)
	switch verdict {
	case later, maybe:
		return verdict, nil
	case has:
		if _, err := io.Copy(verify, body); err != nil {
			return wrong, err
		}
		if err := verify.Verify(); err != nil {
			return wrong, err
		}
		if !t.has.noted(n.number) {
			return next, c.note(ctx, t, n, t.pos.Offset, sum)
		}
		if !bytes.Equal(t.has.sum(n.number), sum.Sum(nil)[:sumSize]) {
			return wrong, differs
		}
		return has, nil
	case wrong:
		return wrong, differs
	case next:
	}
	if skip > 0 { // a part of this chunk has come before
		if _, err := io.CopyN(verify, body, int64(skip)); err != nil {
			return wrong, err
		}
		if size != blob.UnknownSize {
			size -= skip
		}
	}
	a := upload.Append{Offset: t.pos.Offset, Size: size, Verify: verify} // as a whole or not at all (N3)
	offset, err := c.Uploads.Append(ctx, c.who, t.view.ID, a, body)
	if err != nil {
		return wrong, err
	}
	return next, c.note(ctx, t, n, offset, sum)
}

// note keeps the number of a chunk that has come, and the sum of it.
func (c *call) note(ctx context.Context, t transfer, n chunkName, offset drive.ByteSize, sum hash.Hash) error {
	now := chunks{From1: t.has.From1, Ahead: t.has.Ahead, First: t.has.First, Last: n.number, Upto: offset, Bytes: n.bytes}
	if t.has.None {
		now.First = n.number
	}
	now.Sums = append(slices.Clone(t.has.Sums), noted{n.number, sum.Sum(nil)[:sumSize]})
	now.Sums = now.Sums[max(0, len(now.Sums)-maxNoted):]
	return upload.SetMetadata(context.WithoutCancel(ctx), c.Uploads, c.who, t.view.ID, now.text())
}

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
