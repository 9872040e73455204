package upload_test

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// TestCutBodyIsNotStored cuts bodies of unknown length where a small file is read
// ahead, and after: package http ends a chunked body that was cut with io.ErrUnexpectedEOF.
func TestCutBodyIsNotStored(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, 1000, 256 << 10, 256<<10 + 1, 3 * mib} {
		for _, end := range []error{io.ErrUnexpectedEOF, errors.New("reset"), drive.Wrap(io.ErrUnexpectedEOF, drive.TooSlow)} {
			s := uploadtest.New(t, uploadtest.Options{})
			who := s.Account(t, 0)
			body := io.MultiReader(bytes.NewReader(random(size)), iotest.ErrReader(end))
			_, _, err := s.PutFile(t.Context(), who, upload.PutFile{Path: uploadtest.Path(t, "/f"), Size: blob.UnknownSize}, body)
			if err == nil || drive.IsKind(end, drive.TooSlow) && !drive.IsKind(err, drive.TooSlow) {
				t.Errorf("%d bytes and %v: the answer is %v", size, end, err)
			}
			if _, err := s.Tree.Resolve(t.Context(), s.DB, who.Account, uploadtest.Path(t, "/f")); !drive.IsKind(err, drive.NotFound) {
				t.Errorf("%d bytes and %v: the file is there (%v)", size, end, err)
			}
			if got := s.Balance(t, who); got != "0/0/0" {
				t.Errorf("%d bytes and %v: the ledger is %s", size, end, got)
			}
		}
	}
}
