package servicetest

import (
	"net/url"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// What a test puts below its prefix is gone when the test has ended, uploads that were begun too,
// and what another test has put there is not.
func TestAPrefixIsEmptied(t *testing.T) {
	t.Parallel()
	at, err := url.Parse(URL(t, S3))
	if err != nil {
		t.Fatal(err)
	}
	secret, _ := at.User.Password()
	core, err := minio.NewCore(at.Host, &minio.Options{
		Creds: credentials.NewStaticV4(at.User.Username(), secret, ""), Secure: at.Query().Get("insecure") != "true", Region: "us-east-1",
	})
	if err != nil {
		t.Fatal(err)
	}
	bucket, name, other := strings.Trim(at.Path, "/"), Unique(), Unique()
	EmptyBucket(t, at, other)
	put := func(t *testing.T, key string) {
		t.Helper()
		if _, err := core.Client.PutObject(t.Context(), bucket, key, strings.NewReader("x"), 1, minio.PutObjectOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := core.NewMultipartUpload(t.Context(), bucket, key+".begun", minio.PutObjectOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	has := func(prefix string) (n int) {
		for o := range core.Client.ListObjects(t.Context(), bucket, minio.ListObjectsOptions{Prefix: prefix + "/", Recursive: true}) {
			if n++; o.Err != nil {
				t.Fatal(o.Err)
			}
		}
		for u := range core.ListIncompleteUploads(t.Context(), bucket, prefix+"/", true) {
			if n++; u.Err != nil {
				t.Fatal(u.Err)
			}
		}
		return n
	}
	put(t, other+"/a")
	t.Run("a test", func(t *testing.T) { //nolint:paralleltest // its end is waited for
		EmptyBucket(t, at, name)
		put(t, name+"/a")
		put(t, name+"/below/b")
		if n := has(name); n != 4 {
			t.Errorf("there are %d", n)
		}
	})
	if n := has(name); n != 0 {
		t.Errorf("%d are left", n)
	}
	if n := has(other); n != 2 {
		t.Errorf("another test has %d left", n)
	}
}
