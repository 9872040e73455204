package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestShownHidesSecrets(t *testing.T) {
	t.Parallel()
	for place, want := range map[string]string{
		"":                        "",
		"/srv/my files":           "/srv/my files",
		"mysql://u:hidden@h:1/db": "mysql://u@h:1/db",
		"mysql://u:hid%zz@h:1/db": "mysql://...",
		"s3://k:hidden@h/b/p?x=1 redis://:hidden@r:6379/1": "s3://k@h/b/p?x=1 redis://@r:6379/1",
	} {
		if got := RedactLocation(place); got != want {
			t.Errorf("%q is shown as %q, want %q", place, got, want)
		}
	}
}

func TestParseContents(t *testing.T) {
	t.Parallel()
	env := []string{"AWS_ACCESS_KEY_ID=k", "AWS_SECRET_ACCESS_KEY=s"}
	parse := func(text string) BlobLocation {
		t.Helper()
		c, err := ParseBlobLocation(text, env)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		return c
	}
	dir, one, two := parse("/srv/data"), parse("s3://h/b/p redis://r/0"), parse("s3://x:y@h/b/p redis://r/1")
	if dir.Dir != "/srv/data" || one.S3.Key != "k" || two.S3.Key != "x" || two.Redis.DB != 1 {
		t.Errorf("%+v, %+v, %+v", dir, one, two)
	}
	if !one.Same(two) || one.Same(dir) || !dir.Same(parse("/srv/data/")) || one.Same(parse("s3://h/b/q redis://r/0")) {
		t.Error("places are taken for each other")
	}
	if one.SharesRedis(two) || !one.SharesRedis(parse("s3://h/c redis://r:6379")) || one.SharesRedis(dir) {
		t.Error("journals are taken for each other")
	}
	for _, text := range []string{"s3://h/b", "s3://h redis://r", "/srv redis://r", "s3://h/b http://r", "ftp://h/b", ""} {
		if c, err := ParseBlobLocation(text, env); err == nil && text != "" {
			t.Errorf("%q is taken: %+v", text, c)
		}
	}
	if _, err := ParseBlobLocation("s3://h/b redis://r", nil); err == nil {
		t.Error("a bucket without a key is taken")
	}
}

func TestContentsText(t *testing.T) {
	t.Parallel()
	env := []string{"AWS_ACCESS_KEY_ID=k", "AWS_SECRET_ACCESS_KEY=s"}
	for _, text := range []string{
		"/srv/data", "/srv/my data",
		"s3://h:9000/b/a/prefix?insecure=true&region=r redis://u:p%40@r:6379/3",
		"s3://other:s%2F%3F@h/b rediss://r:6379,q:6379?cluster=true",
		"s3://h/b redis://:p@r:26379?sentinel=main",
	} {
		want, err := ParseBlobLocation(text, env)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		got, err := ParseBlobLocation(want.Text(env), env)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%q comes back as %q, %v:\n%s", text, want.Text(env), err, diff)
		}
		if strings.Contains(want.Text(env), "k:s@") {
			t.Errorf("%q: a key of the environment is written down", text)
		}
	}
}
