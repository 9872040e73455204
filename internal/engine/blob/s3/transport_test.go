package s3

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// What a store has to work for is waited for; nothing else holds a client for long, with all its
// attempts.
func TestWhichRequestsAreWaitedFor(t *testing.T) {
	t.Parallel()
	if all := attempts * answerTime; all >= 40*time.Second {
		t.Errorf("a store that has fallen silent holds a request for %s", all)
	}
	for _, c := range []struct {
		method, query, copied string
		length                int64
		want                  bool
	}{
		{method: http.MethodHead},
		{method: http.MethodGet},
		{method: http.MethodGet, query: "?uploadId=x"},                    // ListParts
		{method: http.MethodGet, query: "?uploads=&prefix=x", want: true}, // ListMultipartUploads
		{method: http.MethodGet, query: "?list-type=2", want: true},
		{method: http.MethodDelete},
		{method: http.MethodPost, query: "?uploads="}, // CreateMultipartUpload
		{method: http.MethodPut, query: "?uploadId=x&partNumber=1", length: 8 << 20},
		{method: http.MethodPut, query: "?uploadId=x&partNumber=1", length: 1 << 30, want: true},
		{method: http.MethodPut, query: "?uploadId=x&partNumber=1", copied: "/b/k", want: true},
		{method: http.MethodPost, query: "?uploadId=x", want: true},
		{method: http.MethodPost, query: "?delete=", want: true}, // DeleteObjects
		{method: http.MethodDelete, query: "?uploadId=x", want: true},
	} {
		r := httptest.NewRequest(c.method, "http://store/b/k"+c.query, nil)
		r.ContentLength = c.length
		if c.copied != "" {
			r.Header.Set("X-Amz-Copy-Source", c.copied)
		}
		if isAssembly(r) != c.want {
			t.Errorf("%s %s of %d bytes: waited for is %v", c.method, c.query, c.length, !c.want)
		}
	}
}
