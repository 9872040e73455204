package s3

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/url"

	"github.com/minio/minio-go/v7"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// maxMark is the longest mark that is read, in bytes.
const maxMark = 4 << 10

// ReadMark returns the installation mark of the bucket. found is false without an error if there is
// none; a mark that cannot be read or parsed is an error.
func (b *Bucket) ReadMark(ctx context.Context) (m blob.Mark, found bool, err error) {
	body, _, _, err := b.api.GetObject(ctx, b.name, b.key(blob.MarkName), minio.GetObjectOptions{})
	if err = classify(err); drive.IsKind(err, drive.NotFound) {
		return blob.Mark{}, false, nil
	}
	if err != nil {
		return blob.Mark{}, false, fmt.Errorf("read installation mark: %w", err)
	}
	defer func() { _ = body.Close() }()
	text, err := io.ReadAll(io.LimitReader(body, maxMark))
	if err != nil {
		return blob.Mark{}, false, fmt.Errorf("read installation mark: %w", classify(err))
	}
	if m, err = blob.ParseMark(text); err != nil {
		return blob.Mark{}, false, fmt.Errorf("in bucket %s: %w", b.name, err)
	}
	return m, true, nil
}

// WriteMark writes the installation mark; it replaces an existing one atomically, of any
// installation.
func (b *Bucket) WriteMark(ctx context.Context, m blob.Mark) error {
	text, err := m.Encode()
	if err != nil {
		return err
	}
	_, err = b.api.PutObject(ctx, b.name, b.key(blob.MarkName), bytes.NewReader(text), int64(len(text)), "", "", minio.PutObjectOptions{})
	if err != nil {
		return fmt.Errorf("write installation mark: %w", classify(err))
	}
	return nil
}

// responseHeaders returns the query parameters that override response headers.
func responseHeaders(l blob.Link) url.Values {
	v := url.Values{}
	if l.ContentType != "" {
		v.Set("response-content-type", l.ContentType)
	}
	if l.Disposition != "" {
		v.Set("response-content-disposition", l.Disposition)
	}
	return v
}
