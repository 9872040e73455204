package s3

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob/blobtest"
)

// TestLostConnectionIsNotEOF: a reader would mistake a lost connection for the end of the content.
func TestLostConnectionIsNotEOF(t *testing.T) {
	t.Parallel()
	const size = 100_000
	breaks := map[string]func() (*http.Response, error){
		"before the answer": func() (*http.Response, error) { return nil, io.EOF },
		"within the answer": func() (*http.Response, error) { return nil, io.ErrUnexpectedEOF },
		"within the body": func() (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusPartialContent, Body: &tornBody{http.NoBody, 0}}, nil
		},
	}
	for name, broken := range breaks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b, err := New(Options{
					Endpoint: "store", Bucket: "bucket", AccessKey: "access", SecretKey: "secretsecret", Region: "us-east-1", Insecure: true,
					Transport: roundTripFunc(func(r *http.Request) (*http.Response, error) {
						if r.Method == http.MethodGet {
							answer, err := broken()
							if err == nil {
								answer.Header = head(size)
							}
							return answer, err
						}
						return &http.Response{StatusCode: http.StatusOK, Header: head(size), ContentLength: size, Body: http.NoBody}, nil
					}),
				})
				noError(t, err)
				object, err := b.Blobs.Open(t.Context(), blobtest.PutName())
				noError(t, err)
				defer object.Close()
				_, err = object.ReadAt(make([]byte, 1000), 0)
				if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || !drive.IsKind(err, drive.Unavailable) {
					t.Errorf("error %v of kind %v", err, drive.KindOf(err))
				}
			})
		})
	}
}

func head(size int) http.Header {
	return http.Header{
		"Etag": {`"0123456789abcdef0123456789abcdef"`}, "Last-Modified": {"Sat, 21 Nov 2026 12:00:00 GMT"},
		"Content-Length": {strconv.Itoa(size)},
	}
}
