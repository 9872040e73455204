package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestExportHostsAreChecked(t *testing.T) {
	t.Parallel()
	for given, want := range map[string][]string{
		"Docs.Example.org, *.b.example:8443,10.0.0.1:80,[::1]:80": {"docs.example.org", "*.b.example:8443", "10.0.0.1:80", "[::1]:80"},
		"https://a.example": nil, "a.example:0": nil, "a.*.example": nil, "*": nil, "a b": nil, "a.example/x": nil,
	} {
		c, err := load([]string{"--export-hosts=" + given}, nil, "")
		if (err == nil) != (want != nil) {
			t.Errorf("%q: %v", given, err)
		}
		if err == nil && !cmp.Equal(want, c.ExportHosts) {
			t.Errorf("%q is %q", given, c.ExportHosts)
		}
	}
	env := []string{"AWS_ACCESS_KEY_ID=k", "AWS_SECRET_ACCESS_KEY=s"}
	c, err := load([]string{"--export-bucket=s3://store:9000/zips/a"}, env, "")
	if err != nil || c.S3 != nil || !cmp.Equal(&S3{Endpoint: "store:9000", Bucket: "zips", Prefix: "a", Key: "k", Secret: "s"}, c.ExportBucket) {
		t.Errorf("a bucket is %+v: %v", c.ExportBucket, err)
	}
	for _, bad := range []string{"s3://store/zips", "/mnt/zips", "s3://k:s@store"} {
		if _, err := load([]string{"--export-bucket=" + bad}, nil, ""); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
	if _, err := load([]string{"--export-max-document=2GiB"}, nil, ""); err == nil {
		t.Error("2 GiB are too large for a document")
	}
}
