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

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/head/dav"
	"example.org/smartdrive/internal/head/server"
	"example.org/smartdrive/internal/usecase/upload"
)

// A chunked upload is one upload that is filled from its beginning. The client names the transfer
// and numbers the chunks, or names each chunk by its byte range:
//
//	MKCOL    uploads/USER/ID            begins it; with a Destination (version 2) the target is known
//	PUT      uploads/USER/ID/00001      a chunk; or ID/000000000000000-000000010485760, or its offset
//	PROPFIND uploads/USER/ID            the arrived bytes, for clients that resume
//	MOVE     uploads/USER/ID/.file      makes the file (N4)
//	DELETE   uploads/USER/ID            cancels it
//
// The upload's metadata records the arrived chunks (chunks). It may lag behind the offset by the
// last chunk, which is then matched with the bytes after the recorded end. A repeated chunk is
// refused unless it equals the arrived one, and so is a chunk before the first one, because its
// bytes would be lost. Older clients number chunks from 0 and send several concurrently. So until
// the first chunk has arrived, chunk 1 of a client without a Destination waits up to ZeroWithin for
// chunk 0.

// transfer is a chunked upload of the caller, as read at the beginning of a request. The client
// names it by an id of its own.
type transfer struct {
	// id is the client's id of the transfer.
	id     string
	view   upload.View
	pos    upload.Position
	chunks chunks
}

// fingerprintOf returns the fingerprint of the upload that belongs to the transfer with the
// client's id. The upload is found by it.
func fingerprintOf(id string) string { return "nextcloud " + id }

const maxTransferID = 100 // bytes; fits into the fingerprint

// uploads handles requests about chunked uploads; below are the path segments after the user. Other
// paths and methods fail with drive.NotFound or drive.Method.
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

// target is the location of the file to create.
type target struct {
	drive.Address

	url  *url.URL
	view dav.View // view of the URL
}

// destination parses the Destination header; ok is false if it is absent. It fails with
// drive.BadRequest for a malformed URL and with the errors of CheckHost and Address; ok is then
// false, too.
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

// totalLength parses OC-Total-Length, the size of the whole file; absent it is unknown. A malformed
// number fails with drive.BadRequest.
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

// beginChunks handles MKCOL: it begins a transfer with the client's id and replies 201. It fails
// with drive.Method (405) if the transfer exists, because its bytes may be of another content, and
// with the errors of beginning an upload.
func (c *call) beginChunks(ctx context.Context, id string) error {
	key := c.who.User.String() + id
	l := c.transferLocks.ref(key)
	defer c.transferLocks.unref(key, l)
	ctx, end, err := c.transferLocks.lock(ctx, l, "")
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
		Place: at.Place, Path: at.Path, Conflict: drive.ConflictReplace, Size: size, Fingerprint: fingerprintOf(id), Protocol: upload.Nextcloud,
		Metadata: chunks{None: true, From1: knows}.text(),
	}
	if !knows { // the location is set at the end: see assemble
		begin.Path, begin.Conflict = drive.Path{drive.Name(".upload-" + drive.NewID[drive.UploadID]().String())}, drive.ConflictRename
	}
	v, err := c.Uploads.Begin(ctx, c.who, begin, nil)
	if err != nil {
		if drive.IsKind(err, drive.NotFound) {
			err = drive.Wrap(err, drive.ParentGone)
		}
		return err
	}
	c.transferLocks.cache(key, v.ID)
	c.w.WriteHeader(http.StatusCreated)
	return nil
}

// find returns the open transfer of the caller with the client's id; t.pos is not set. It caches
// the id of the upload. It fails with drive.NotFound if there is none.
func (c *call) find(ctx context.Context, id string) (transfer, error) {
	key := c.who.User.String() + id
	if upload, known := c.transferLocks.cached(key); known {
		t, err := c.cachedTransfer(ctx, id, upload)
		if !drive.IsKind(err, drive.NotFound, drive.Gone) {
			return t, err
		}
		c.transferLocks.forget(key)
	}
	t, err := c.search(ctx, id)
	if err == nil {
		c.transferLocks.cache(key, t.view.ID)
	}
	return t, err
}

// cachedTransfer returns the transfer whose upload was is cached. If the caller may no longer write
// to the target folder, it ends the upload, so that its reservation is released at once. It fails
// with drive.NotFound if the upload has ended or does not belong to the transfer.
func (c *call) cachedTransfer(ctx context.Context, id string, was drive.UploadID) (transfer, error) {
	v, err := c.Uploads.Get(ctx, c.who, was)
	if drive.IsKind(err, drive.NotFound, drive.Forbidden) {
		if err := upload.ReclaimRevoked(ctx, c.Uploads, c.who, was); err != nil { // not NotFound, so that the next request tries to end it again
			return transfer{}, fmt.Errorf("end a transfer that may not go on: %w", err)
		}
		return transfer{}, drive.Fail(drive.NotFound)
	}
	if err == nil && (!v.Row().State.Open() || v.Row().Fingerprint != fingerprintOf(id)) {
		err = drive.Fail(drive.NotFound)
	}
	if err != nil {
		return transfer{}, err
	}
	return c.transfer(ctx, id, v)
}

// search finds a transfer in the account of the Destination, in the caller's own, or else in any
// account that the caller sees. It fails with drive.NotFound.
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

// findIn returns the caller's open transfer with the client's id in one account. It reads the
// caller's open uploads page by page. It fails with drive.NotFound.
func (c *call) findIn(ctx context.Context, account drive.AccountID, id string) (transfer, error) {
	const page = 500
	for q := (upload.ListQuery{User: c.who.User, Account: account, Limit: page, Open: true}); ; {
		all, err := c.Uploads.List(ctx, q)
		if err != nil {
			return transfer{}, err
		}
		for _, v := range all {
			if v.Row().Fingerprint == fingerprintOf(id) {
				return c.transfer(ctx, id, v)
			}
			q.After = v.ID
		}
		if len(all) < page {
			return transfer{}, drive.Fail(drive.NotFound)
		}
	}
}

// transfer returns the transfer of an upload with its recorded chunks. It fails if these cannot be
// read.
func (c *call) transfer(ctx context.Context, id string, v upload.View) (transfer, error) {
	t := transfer{id: id, view: v}
	return t, c.readChunks(ctx, &t)
}

// readChunks reads what is recorded about the chunks into t.chunks. Without the lock of the
// transfer the result may be outdated at once. It fails with the error of the query, or if the
// recorded text is malformed.
func (c *call) readChunks(ctx context.Context, t *transfer) (err error) {
	text, err := upload.Metadata(ctx, c.Uploads, c.who, t.view.ID)
	if err != nil {
		return err
	}
	t.chunks = chunks{}
	if err := json.Unmarshal([]byte(text), &t.chunks); err != nil {
		return fmt.Errorf("read the chunks of upload %s: %w", t.view.ID, err)
	}
	return nil
}

// chunkName is the parsed name of a chunk: its number, or with bytes its offset.
type chunkName struct {
	number int64
	bytes  bool
}

// parseChunk parses the name of a chunk: a number, or an offset followed by "-". It fails with
// drive.BadName if the number is malformed or negative.
func parseChunk(name string) (chunkName, error) {
	first, _, ranged := strings.Cut(name, "-")
	n, err := strconv.ParseInt(first, 10, 64)
	if err != nil || n < 0 {
		return chunkName{}, drive.Wrap(err, drive.BadName, "reason", "control")
	}
	return chunkName{n, ranged}, nil
}

// putChunk handles PUT of a chunk: it appends the chunk to the upload and replies 201. A chunk that
// comes before its predecessor waits up to EarlyWithin and then fails with drive.InProgress. Chunk
// 1 waits up to ZeroWithin if a chunk 0 may follow. A chunk that has arrived before is not stored
// again; one with the same name but other bytes fails with drive.OffsetMismatch.
func (c *call) putChunk(ctx context.Context, id, name string) error {
	n, err := parseChunk(name)
	if err == nil {
		err = server.RefuseEncoding(c.r)
	}
	if err == nil && c.r.ContentLength == 0 && c.r.Header.Get("Content-Length") == "" { // a proxy has dropped the body
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
	l := c.transferLocks.ref(key)
	defer c.transferLocks.unref(key, l)
	early, zero := earlyTimeout{Timer: time.NewTimer(c.EarlyWithin), within: c.EarlyWithin}, time.NewTimer(c.ZeroWithin)
	defer early.Stop()
	defer zero.Stop()
	first := c.r.Header.Get("Destination") != "" // chunk 1 is known to be the first: version 2 always sends a Destination
	for {
		verdict, err := c.tryChunk(ctx, l, id, name, n, declared, first, &early)
		if err != nil {
			return err
		}
		deadline := early.C
		switch verdict {
		case maybePremature:
			deadline = zero.C
		case premature:
			if early.expired {
				return c.refuseEarly(ctx, l, id, n)
			}
		case accept, duplicate, mismatch:
			c.w.Header().Set("ETag", `"`+name+`"`)
			c.w.WriteHeader(http.StatusCreated)
			return nil
		}
		switch late, err := c.transferLocks.wait(ctx, l, deadline); {
		case err != nil:
			return err
		case late && verdict == maybePremature:
			first = true
		case late: // one more try, after the chunk that is arriving
			early.expired = true
		}
	}
}

// earlyTimeout limits how long a chunk waits for its predecessors. The wait restarts when the
// transfer has grown.
type earlyTimeout struct {
	*time.Timer

	// within is the limit since the transfer last grew; offset is its size then; expired tells that
	// the limit has passed.
	within  time.Duration
	offset  drive.ByteSize
	expired bool
}

// observe restarts the wait if the offset has changed.
func (p *earlyTimeout) observe(offset drive.ByteSize) {
	if offset != p.offset {
		p.offset, p.expired = offset, false
		p.Reset(p.within)
	}
}

// refuseEarly refuses a chunk whose predecessors have not arrived, with drive.InProgress, and
// records it, so that a MOVE cannot complete the file without it. It always returns an error: that,
// or the failure to record it.
func (c *call) refuseEarly(ctx context.Context, l *transferLock, id string, n chunkName) error {
	ctx, end, err := c.transferLocks.lock(ctx, l, "")
	if err != nil {
		return err
	}
	defer end()
	t, err := c.find(ctx, id)
	if err == nil && t.chunks.Ahead < n.number {
		t.chunks.Ahead = n.number
		err = upload.SetMetadata(ctx, c.Uploads, c.who, t.view.ID, t.chunks.text())
	}
	if err == nil {
		err = drive.Fail(drive.InProgress, "retry_after", 1)
	}
	return err
}

// tryChunk appends a chunk if its predecessors have arrived. Otherwise it returns premature, or
// maybePremature if a chunk 0 may be missing and first is false. A duplicate is read but not
// appended. It fails with drive.NotFound, drive.OffsetMismatch for other bytes than before, or the
// error of appending; the verdict is then not valid.
func (c *call) tryChunk(
	ctx context.Context, l *transferLock, id, name string, n chunkName, declared []digest.FieldDigest, first bool, early *earlyTimeout,
) (_ verdict, err error) {
	ctx, end, err := c.transferLocks.lock(ctx, l, name)
	if err != nil {
		return mismatch, err
	}
	defer end()
	t, err := c.find(ctx, id)
	if err != nil {
		return mismatch, err
	}
	if t.pos, err = c.Uploads.Offset(ctx, c.who, t.view.ID); err != nil {
		return mismatch, err
	}
	early.observe(t.pos.Offset)
	size := drive.ByteSize(c.r.ContentLength)
	if size < 0 {
		size = blob.UnknownSize
	}
	t.chunks.From1 = t.chunks.From1 || first
	if t.chunks.isOffset(n) {
		n.bytes, t.chunks.Bytes = true, true
	}
	skip, verdict := t.chunks.classify(n, size, t.pos.Offset)
	differs := drive.Fail(drive.OffsetMismatch, "offset", t.pos.Offset, "sent", int64(size))
	verify, sum := digest.NewVerifier(declared), sha256.New()
	in := server.RequestBody(c.r)
	defer context.AfterFunc(ctx, func() { _ = in.Close() })() // canceled if the same chunk arrives again
	body := upload.ReaderWithCloser(io.TeeReader(in, sum), in)
	switch verdict {
	case premature, maybePremature:
		return verdict, nil
	case duplicate:
		if _, err := io.Copy(verify, body); err != nil {
			return mismatch, err
		}
		if err := verify.Verify(); err != nil {
			return mismatch, err
		}
		if !t.chunks.noted(n.number) {
			return accept, c.note(ctx, t, n, t.pos.Offset, sum)
		}
		if !bytes.Equal(t.chunks.sum(n.number), sum.Sum(nil)[:sumSize]) {
			return mismatch, differs
		}
		return duplicate, nil
	case mismatch:
		return mismatch, differs
	case accept:
	}
	if skip > 0 { // some bytes of this chunk have arrived before
		if _, err := io.CopyN(verify, body, int64(skip)); err != nil {
			return mismatch, err
		}
		if size != blob.UnknownSize {
			size -= skip
		}
	}
	a := upload.Append{Offset: t.pos.Offset, Size: size, Verify: verify} // appended completely or not at all (N3)
	offset, err := c.Uploads.Append(ctx, c.who, t.view.ID, a, body)
	if err != nil {
		return mismatch, err
	}
	return accept, c.note(ctx, t, n, offset, sum)
}

// note records number, end offset and sum of a chunk that has arrived in the upload's metadata,
// even if the client has disconnected. The sums of the last maxSums chunks are kept. The caller
// must own the lock of the transfer.
func (c *call) note(ctx context.Context, t transfer, n chunkName, offset drive.ByteSize, sum hash.Hash) error {
	now := chunks{From1: t.chunks.From1, Ahead: t.chunks.Ahead, First: t.chunks.First, Last: n.number, Upto: offset, Bytes: n.bytes}
	if t.chunks.None {
		now.First = n.number
	}
	now.Sums = append(slices.Clone(t.chunks.Sums), chunkSum{n.number, sum.Sum(nil)[:sumSize]})
	now.Sums = now.Sums[max(0, len(now.Sums)-maxSums):]
	return upload.SetMetadata(context.WithoutCancel(ctx), c.Uploads, c.who, t.view.ID, now.text())
}

// listChunks lists the arrived chunks for clients that add up the sizes to resume. Only the total
// is known, so each chunk is listed with an equal share. It fails with drive.NotFound.
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
	switch k := t.chunks; {
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

// dropChunks handles DELETE: it cancels a transfer, so that its bytes are deleted and its reserved
// space is released, and replies 204. It fails with drive.NotFound.
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
