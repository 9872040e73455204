package client

import (
	"context"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Begin describes an upload to be begun, by Path or by Parent and Name.
type Begin struct {
	Path        string     `json:"path,omitempty"`
	Parent      string     `json:"parent,omitempty"`
	Name        string     `json:"name,omitempty"`
	Size        *int64     `json:"size"` // bytes; nil when unknown
	Digests     Digests    `json:"digests,omitempty"`
	Fingerprint string     `json:"fingerprint,omitempty"` // at most 128 bytes
	Conflict    Conflict   `json:"conflict,omitempty"`    // default Fail
	Parents     bool       `json:"parents,omitempty"`     // make missing folders
	PartSize    int64      `json:"part_size,omitempty"`   // bytes, a power of two from 1 MiB
	Mtime       *time.Time `json:"mtime,omitempty"`
	MIME        string     `json:"mime,omitempty"`
}

// Amend changes an open upload: more digests, or another place.
type Amend struct {
	Digests  Digests  `json:"digests,omitempty"`
	Name     string   `json:"name,omitempty"`
	Parent   string   `json:"parent,omitempty"`
	Conflict Conflict `json:"conflict,omitempty"`
	Size     *int64   `json:"size,omitempty"` // for Complete where it was unknown
}

// BeginUpload begins an upload or returns the open one that matches.
func (c *Client) BeginUpload(ctx context.Context, b Begin) (Upload, error) {
	u, _, err := c.begin(ctx, b, nil)
	return u, err
}

// begin is BeginUpload; found says that the upload was there before.
func (c *Client) begin(ctx context.Context, b Begin, p *patience) (u Upload, found bool, err error) {
	k := &call{method: http.MethodPost, path: "/uploads", in: b, out: &u, key: true, patience: p}
	err = c.do(ctx, k)
	return u, k.status == http.StatusOK || k.doubt, err
}

// Uploads lists the open uploads.
func (c *Client) Uploads(ctx context.Context, p Page) (List[Upload], error) {
	return fetch[List[Upload]](ctx, c, &call{method: http.MethodGet, path: "/uploads", query: p.values()})
}

// Upload returns one upload; done ones are known for 7 days.
func (c *Client) Upload(ctx context.Context, id string) (Upload, error) {
	return c.upload(ctx, id, nil)
}

func (c *Client) upload(ctx context.Context, id string, p *patience) (Upload, error) {
	return fetch[Upload](ctx, c, &call{method: http.MethodGet, path: uploadPath(id), patience: p})
}

// AmendUpload adds digests to an open upload, which may end it at once, or changes where it goes.
func (c *Client) AmendUpload(ctx context.Context, id string, a Amend) (Upload, error) {
	return c.amend(ctx, id, a, nil)
}

func (c *Client) amend(ctx context.Context, id string, a Amend, p *patience) (Upload, error) {
	return fetch[Upload](ctx, c, &call{method: http.MethodPatch, path: uploadPath(id), in: a, patience: p})
}

// CancelUpload gives an upload up.
func (c *Client) CancelUpload(ctx context.Context, id string) error {
	return c.do(ctx, &call{method: http.MethodDelete, path: uploadPath(id)})
}

// PutPart sends part n from r, which holds exactly what the part is to have. The same bytes may be
// sent again.
func (c *Client) PutPart(ctx context.Context, id string, n int64, r *io.SectionReader) error {
	return c.putPart(ctx, id, n, r, nil, nil)
}

func (c *Client) putPart(ctx context.Context, id string, n int64, r *io.SectionReader, count func(int64), p *patience) error {
	body := func() (*upBody, error) {
		return &upBody{size: r.Size(), from: io.NewSectionReader(r, 0, r.Size()), count: count}, nil
	}
	return c.do(ctx, &call{method: http.MethodPut, path: partPath(id, n), body: body, patience: p})
}

// DeletePart drops part n.
func (c *Client) DeletePart(ctx context.Context, id string, n int64) error {
	return c.deletePart(ctx, id, n, nil)
}

func (c *Client) deletePart(ctx context.Context, id string, n int64, p *patience) error {
	return c.do(ctx, &call{method: http.MethodDelete, path: partPath(id, n), patience: p})
}

// Parts lists the parts that the server has.
func (c *Client) Parts(ctx context.Context, id string, p Page) (List[Part], error) {
	return c.parts(ctx, id, p, nil)
}

func (c *Client) parts(ctx context.Context, id string, p Page, pt *patience) (List[Part], error) {
	return fetch[List[Part]](ctx, c, &call{method: http.MethodGet, path: uploadPath(id) + "/parts", query: p.values(), patience: pt})
}

// Prove answers a challenge; alg is "blake3" or "hmac-sha256". The upload is done, goes on as
// any other, or is Verifying: Upload tells later which of the two it has become.
func (c *Client) Prove(ctx context.Context, id, alg, answer string) (Upload, error) {
	return c.prove(ctx, id, alg, answer, nil)
}

func (c *Client) prove(ctx context.Context, id, alg, answer string, p *patience) (Upload, error) {
	in := map[string]string{"alg": alg, "answer": answer}
	k := &call{method: http.MethodPost, path: uploadPath(id) + "/proof", in: in, key: true, patience: p}
	return fetch[Upload](ctx, c, k)
}

// CompleteUpload seals an upload. State Sealing means that it takes longer: call it again, it
// attaches to the running seal. It needs no Idempotency-Key, for the upload itself is one.
func (c *Client) CompleteUpload(ctx context.Context, id string, a Amend) (Upload, error) {
	return c.complete(ctx, id, a, nil)
}

func (c *Client) complete(ctx context.Context, id string, a Amend, p *patience) (Upload, error) {
	return fetch[Upload](ctx, c, &call{method: http.MethodPost, path: uploadPath(id) + "/complete", in: a, patience: p})
}

// Prepare returns a signed key, good for 12 hours, that makes one creating request happen once.
func (c *Client) Prepare(ctx context.Context) (preID string, expires time.Time, err error) {
	var out struct {
		PreID     string    `json:"pre_id"`
		ExpiresAt time.Time `json:"expires_at"`
	}
	err = c.do(ctx, &call{method: http.MethodPost, path: "/prepare", out: &out})
	return out.PreID, out.ExpiresAt, err
}

func uploadPath(id string) string        { return "/uploads/" + url.PathEscape(id) }
func partPath(id string, n int64) string { return uploadPath(id) + "/parts/" + itoa(n) }
func itoa(n int64) string                { return strconv.FormatInt(n, 10) }

// AllUploads yields the open uploads.
func (c *Client) AllUploads(ctx context.Context) iter.Seq2[Upload, error] {
	return all(func(p Page) (List[Upload], error) { return c.Uploads(ctx, p) })
}
