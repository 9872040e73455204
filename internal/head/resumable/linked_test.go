package resumable_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"lukechampine.com/blake3"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/head/resumable"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// A creation whose digest matches owned content creates the file at once and answers so.
func TestCreationLinksOwnedContent(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{})
	who, data := s.Account(t, 0), bytes.Repeat([]byte("some content "), 200_000)
	path, size := uploadtest.Path(t, "/first"), drive.ByteSize(len(data))
	if _, _, err := s.PutFile(t.Context(), who, upload.PutFile{Path: path, Size: size}, bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	sum := blake3.Sum256(data)
	head := resumable.New(resumable.Options{
		Uploads:      s.Sessions,
		Authenticate: func(*http.Request) (drive.Who, func(), error) { return who, func() {}, nil },
		ReadPut: func(*http.Request) (upload.PutFile, error) {
			return upload.PutFile{Path: uploadtest.Path(t, "/second"), Digests: digest.Set{digest.Blake3: sum[:]}}, nil
		},
		AnswerPut: func(w http.ResponseWriter, _ *http.Request, _ tree.Node, created bool) error {
			w.WriteHeader(map[bool]int{true: http.StatusCreated, false: http.StatusOK}[created])
			return nil
		},
	})
	r := httptest.NewRequestWithContext(t.Context(), "PUT", "/api/v1/files/second", nil)
	for name, value := range map[string]string{"Upload-Draft-Interop-Version": "8", "Upload-Complete": "?0", "Upload-Length": strconv.Itoa(len(data))} {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	head.ServeHTTP(w, r)
	if w.Code != http.StatusCreated || w.Header().Get("Upload-Complete") != "?1" {
		t.Errorf("the answer is %d %v %s", w.Code, w.Header(), w.Body)
	}
	if !bytes.Equal(s.Read(t, who, "/second"), data) {
		t.Error("it has other bytes")
	}
}
