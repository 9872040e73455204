package rest

import (
	"context"
	"math"
	"strconv"
	"strings"

	"example.org/smartdrive/api"
	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/head/server"
	"example.org/smartdrive/internal/usecase/upload"
)

// partRoutes returns the declarations of the part routes. It registers nothing.
func (u uploads) partRoutes() []route {
	all, one := uploadsPath+"/{id}/parts", uploadsPath+"/{id}/parts/{n}"
	return []route{
		{
			id: "listParts", method: "GET", path: all, access: read, senders: true, action: u.byID(u.parts), query: []param{limitParam, cursor},
			summary:  "List the parts that have arrived. `cv` is a part's BLAKE3 chaining value: a client proves with it that a file picked again is the same.",
			outcomes: []outcome{jsonOutcome[api.Page[api.Part]](200, "a page, by number")}, errors: []drive.Kind{drive.NotFound, drive.Gone, drive.WrongState, drive.CursorInvalid},
		}, {
			id: "uploadPart", method: "PUT", path: one, access: write, senders: true, action: withRawBody(u.withID(u.putPart)), header: []string{"Content-Length", "Content-Digest"},
			summary:  "Send a part: exactly its length, in any order, several at a time, any number of times. A second PUT of a part ends the first.",
			outcomes: []outcome{emptyOutcome(204, "it is there, and survives a crash")},
			errors: []drive.Kind{
				drive.NotFound, drive.Gone, drive.WrongState, drive.PartRange, drive.PartSize, drive.PartDiffers, drive.LengthRequired,
				drive.MediaType, drive.TooSlow, drive.DigestMismatch, drive.InProgress, drive.Quota, drive.DiskFull,
			},
		}, {
			id: "deletePart", method: "DELETE", path: one, access: write, senders: true, action: u.byID(u.deletePart),
			summary:  "Take a part back, so that other bytes can be sent in its place.",
			outcomes: []outcome{emptyOutcome(204, "it is not there")}, errors: []drive.Kind{drive.NotFound, drive.Gone, drive.WrongState, drive.PartRange, drive.InProgress},
		},
	}
}

// parts serves GET /uploads/{id}/parts. It replies 200 with api.Page[api.Part]. Beyond the errors
// common to all routes it fails with drive.NotFound, drive.Gone, drive.WrongState or
// drive.CursorInvalid.
func (u uploads) parts(ctx context.Context, c *call, id drive.UploadID) (reply, error) {
	parts, err := u.sessions.ListParts(ctx, c.who, id)
	if err != nil {
		return reply{}, err
	}
	return pageOf(c, convert(parts, showPart), func(p api.Part) string { return strconv.Itoa(p.N) })
}

// showPart returns the wire form of a received part.
func showPart(p blob.Part) api.Part {
	view := api.Part{N: p.N, Size: int64(p.Size), CRC32: p.CRC32}
	if !p.CV.IsZero() {
		view.CV = textOrNil(&p.CV)
	}
	return view
}

// partOf parses the part number in the path. Text that is no number fails with drive.NotFound. A
// number that overflows int is returned as MaxInt32, which is out of range for every upload.
func partOf(c *call) (int, error) {
	text := c.r.PathValue("n")
	digits := strings.TrimPrefix(text, "-")
	if digits == "" || strings.Trim(digits, "0123456789") != "" || len(digits) > 1 && digits[0] == '0' {
		return 0, drive.Fail(drive.NotFound)
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return math.MaxInt32, nil //nolint:nilerr // digits that are no int overflow it
	}
	return n, nil
}

// putPart serves PUT /uploads/{id}/parts/{n}. It replies 204 without a body. Beyond the errors
// common to all routes it fails with drive.NotFound, drive.Gone, drive.WrongState, drive.PartRange,
// drive.PartSize, drive.PartDiffers, drive.LengthRequired, drive.MediaType, drive.TooSlow,
// drive.DigestMismatch, drive.InProgress, drive.Quota or drive.DiskFull. The part survives a crash
// once the reply is 204. A second PUT of the same part ends the first.
func (u uploads) putPart(ctx context.Context, c *call, id drive.UploadID) (reply, error) {
	n, err := partOf(c)
	if err != nil {
		return reply{}, err
	}
	if err := server.RefuseEncoding(c.r); err != nil {
		return reply{}, err
	}
	declared, err := digest.ParseContentDigest(c.joined("Content-Digest"))
	if err != nil {
		return reply{}, err
	}
	p := upload.PutPart{N: n, Size: drive.ByteSize(c.r.ContentLength)}
	if len(declared) > 0 {
		p.Verify = digest.NewVerifier(declared)
	}
	err = u.sessions.Put(ctx, c.who, id, p, server.RequestBody(c.r))
	if err == nil && c.sender != nil { // the link may have been closed while the bytes arrived
		err = u.links.CheckOpen(ctx, *c.sender)
	}
	return empty(err)
}

// deletePart serves DELETE /uploads/{id}/parts/{n}. It replies 204 without a body. Beyond the
// errors common to all routes it fails with drive.NotFound, drive.Gone, drive.WrongState,
// drive.PartRange or drive.InProgress.
func (u uploads) deletePart(ctx context.Context, c *call, id drive.UploadID) (reply, error) {
	n, err := partOf(c)
	if err != nil {
		return reply{}, err
	}
	return empty(u.sessions.DeletePart(ctx, c.who, id, n))
}
