package batch_test

import (
	"crypto/md5" //nolint:gosec // clients still send it
	"encoding/hex"
	"testing"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/idem"
	"example.org/smartdrive/internal/usecase/batch"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// Content stored twice in a batch is shown with the digests of both.
func TestDigestsOfDuplicateContent(t *testing.T) {
	t.Parallel()
	f := newFixture(t, drive.MiB, uploadtest.Options{})
	one := request{op: batch.Put, path: "/one", content: "same"}.item(t, 0)
	two := request{op: batch.Put, path: "/two", content: "same"}.item(t, 1)
	sum := md5.Sum([]byte("same")) //nolint:gosec // clients still send it
	two.File.Digests = digest.Set{digest.MD5: sum[:]}
	err := f.batches.Run(t.Context(), f.who, idem.Request{}, &list{items: []batch.Item{one, two}}, func(all []batch.Answer) error {
		for _, a := range all {
			if a.N == 1 && (a.Err != nil || a.Node.Digests["md5"] != hex.EncodeToString(sum[:])) {
				t.Errorf("%+v, %v", a.Node, a.Err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
