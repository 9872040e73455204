package client

import (
	"context"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"example.org/smartdrive/api"
)

// NewUpload describes an upload for BeginUpload: either Path, or Parent and Name.
type NewUpload struct {
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

// UploadChange describes changes of an open upload. Zero fields stay unchanged.
type UploadChange struct {
	Digests  Digests  `json:"digests,omitempty"`
	Name     string   `json:"name,omitempty"`
	Parent   string   `json:"parent,omitempty"`
	Conflict Conflict `json:"conflict,omitempty"`
	Size     *int64   `json:"size,omitempty"` // for CompleteUpload if the size was unknown
}

// BeginUpload creates an upload, or returns the open one with the same path, size and fingerprint.
func (c *Client) BeginUpload(ctx context.Context, b NewUpload) (Upload, error) {
	u, _, err := c.begin(ctx, b, nil)
	return u, err
}

// begin creates an upload and retries within the budget p. found reports that the upload may have
// existed before.
func (c *Client) begin(ctx context.Context, b NewUpload, p *retryBudget) (u Upload, found bool, err error) {
	k := &request{method: http.MethodPost, path: "/uploads", input: b, output: &u, withKey: true, budget: p}
	err = c.do(ctx, k)
	return u, k.status == http.StatusOK || k.inDoubt, err
}

// Uploads returns a page of the caller's open uploads, oldest first, without their received parts.
func (c *Client) Uploads(ctx context.Context, p Page) (List[Upload], error) {
	return fetch[List[Upload]](ctx, c, &request{method: http.MethodGet, path: "/uploads", query: p.values()})
}

// Upload returns an upload. The server keeps finished ones for 7 days.
func (c *Client) Upload(ctx context.Context, id string) (Upload, error) {
	return c.upload(ctx, id, nil)
}

// upload returns the state of an upload. It retries within the budget p; nil uses the client's.
func (c *Client) upload(ctx context.Context, id string, p *retryBudget) (Upload, error) {
	return fetch[Upload](ctx, c, &request{method: http.MethodGet, path: uploadPath(id), budget: p})
}

// AmendUpload adds digests to an open upload or changes its target. The returned upload is done if
// the server already has content with the digest.
func (c *Client) AmendUpload(ctx context.Context, id string, a UploadChange) (Upload, error) {
	return c.amend(ctx, id, a, nil)
}

// amend adds digests to an open upload or changes its target. It retries within the budget p; nil
// uses the client's.
func (c *Client) amend(ctx context.Context, id string, a UploadChange, p *retryBudget) (Upload, error) {
	return fetch[Upload](ctx, c, &request{method: http.MethodPatch, path: uploadPath(id), input: a, budget: p})
}

// CancelUpload deletes an open upload and its parts. It fails with CodeNotFound.
func (c *Client) CancelUpload(ctx context.Context, id string) error {
	return c.do(ctx, &request{method: http.MethodDelete, path: uploadPath(id)})
}

// PutPart sends part n of an upload from r, which must hold exactly the part's bytes. Sending the
// same bytes again is allowed; other bytes fail with CodePartDiffers.
func (c *Client) PutPart(ctx context.Context, id string, n int64, r *io.SectionReader) error {
	return c.putPart(ctx, id, n, r, nil, nil)
}

// putPart sends part n, reports sent bytes to count, and retries within the budget p; count and p
// may be nil.
func (c *Client) putPart(ctx context.Context, id string, n int64, r *io.SectionReader, count func(int64), p *retryBudget) error {
	body := func() (*requestBody, error) {
		return &requestBody{size: r.Size(), src: io.NewSectionReader(r, 0, r.Size()), count: count}, nil
	}
	return c.do(ctx, &request{method: http.MethodPut, path: partPath(id, n), body: body, budget: p})
}

// DeletePart deletes part n of an upload, so that other bytes can be sent for it.
func (c *Client) DeletePart(ctx context.Context, id string, n int64) error {
	return c.deletePart(ctx, id, n, nil)
}

// deletePart deletes part n of an upload. It retries within the budget p; nil uses the client's. It
// fails with CodeNotFound if there is no such upload.
func (c *Client) deletePart(ctx context.Context, id string, n int64, p *retryBudget) error {
	return c.do(ctx, &request{method: http.MethodDelete, path: partPath(id, n), budget: p})
}

// Parts returns a page of the parts that the server has received.
func (c *Client) Parts(ctx context.Context, id string, p Page) (List[Part], error) {
	return c.parts(ctx, id, p, nil)
}

// parts returns a page of the received parts. It retries within the budget pt; nil uses the
// client's.
func (c *Client) parts(ctx context.Context, id string, p Page, pt *retryBudget) (List[Part], error) {
	return fetch[List[Part]](ctx, c, &request{method: http.MethodGet, path: uploadPath(id) + "/parts", query: p.values(), budget: pt})
}

// Prove answers an upload's challenge; alg is "blake3" or "hmac-sha256". The returned upload is
// Done, Active if the answer was wrong, or Verifying; then poll Upload.
func (c *Client) Prove(ctx context.Context, id, alg, answer string) (Upload, error) {
	return c.prove(ctx, id, alg, answer, nil)
}

// prove answers an upload's challenge. It retries within the budget p; nil uses the client's.
func (c *Client) prove(ctx context.Context, id, alg, answer string, p *retryBudget) (Upload, error) {
	in := map[string]string{"alg": alg, "answer": answer}
	k := &request{method: http.MethodPost, path: uploadPath(id) + "/proof", input: in, withKey: true, budget: p}
	return fetch[Upload](ctx, c, k)
}

// CompleteUpload seals an upload. If the returned state is Sealing, call CompleteUpload again until
// it is Done; repeated calls join the running seal.
func (c *Client) CompleteUpload(ctx context.Context, id string, a UploadChange) (Upload, error) {
	return c.complete(ctx, id, a, nil)
}

// complete turns an upload into a file version. It retries within the budget p; nil uses the
// client's.
func (c *Client) complete(ctx context.Context, id string, a UploadChange, p *retryBudget) (Upload, error) {
	return fetch[Upload](ctx, c, &request{method: http.MethodPost, path: uploadPath(id) + "/complete", input: a, budget: p})
}

// Prepare returns a signed idempotency key, valid for 12 hours, for one creating request. It is not
// stored; an unused key needs no clean-up.
func (c *Client) Prepare(ctx context.Context) (preID string, expires time.Time, err error) {
	var out api.PreparedID
	err = c.do(ctx, &request{method: http.MethodPost, path: "/prepare", output: &out})
	return out.PreID, out.ExpiresAt.Time, err
}

// uploadPath returns the API path of an upload.
func uploadPath(id string) string { return "/uploads/" + url.PathEscape(id) }

// partPath returns the API path of part n of an upload.
func partPath(id string, n int64) string { return uploadPath(id) + "/parts/" + itoa(n) }

// itoa formats n in decimal.
func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// AllUploads yields all open uploads. If a request fails, the last pair is a zero value and the
// error.
func (c *Client) AllUploads(ctx context.Context) iter.Seq2[Upload, error] {
	return all(func(p Page) (List[Upload], error) { return c.Uploads(ctx, p) })
}
