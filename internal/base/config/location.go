package config

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// BlobLocation is a storage location for contents other than the configured one, such as the target
// of a move. Its text form is the value of --blobs and, for S3, a space and the value of --redis,
// including secrets.
type BlobLocation struct {
	Dir   string // absolute path; empty: S3
	S3    *S3
	Redis *Redis // for the journals of uploads; nil without S3
}

// ParseBlobLocation parses the text form: an absolute directory, or the URL of a bucket, a space
// and the URL of Redis. Keys missing from the bucket's URL are taken from environ, as for --blobs.
// It fails if the Redis is missing for a bucket or given for a directory, or if a URL is malformed.
func ParseBlobLocation(text string, environ []string) (BlobLocation, error) {
	blobs, redis, _ := strings.Cut(text, " ")
	if !strings.HasPrefix(text, "s3:") && !strings.Contains(redis, "://") { // a directory with a space in its name
		blobs, redis = text, ""
	}
	var c Config
	if err := setBlobs(&c, blobs); err != nil {
		return BlobLocation{}, err
	}
	if c.S3 == nil {
		if redis != "" {
			return BlobLocation{}, errors.New("a directory needs no Redis")
		}
		if !filepath.IsAbs(c.Blobs) { // it is stored and read by processes with other working directories
			return BlobLocation{}, fmt.Errorf("%q is not an absolute path", c.Blobs)
		}
		return BlobLocation{Dir: filepath.Clean(c.Blobs)}, nil
	}
	if redis == "" {
		return BlobLocation{}, errors.New("the journal of the parts of uploads lies in Redis when the bytes are on S3: name one")
	}
	if err := setRedis(&c, redis); err != nil {
		return BlobLocation{}, fmt.Errorf("redis: %w", err)
	}
	return BlobLocation{S3: c.S3, Redis: c.Redis}, c.S3.credentials(environ, "to-blobs")
}

// Text returns the text form that ParseBlobLocation parses. It leaves out a key of the bucket that
// equals the one in environ, and otherwise includes secrets.
func (c BlobLocation) Text(environ []string) string {
	if c.S3 == nil {
		return c.Dir
	}
	text := c.S3.text(environ)
	if c.Redis != nil {
		text += " " + c.Redis.text()
	}
	return text
}

// text returns the URL that parseS3 parses to s, with the secret in clear unless key and secret
// equal those in environ; the caller must not log it.
func (s *S3) text(environ []string) string {
	u := url.URL{Scheme: "s3", Host: s.Endpoint, Path: strings.TrimSuffix("/"+s.Bucket+"/"+s.Prefix, "/")}
	env := environment(environ)
	if s.Key != env.lookup("AWS_ACCESS_KEY_ID") || string(s.Secret) != env.lookup("AWS_SECRET_ACCESS_KEY") {
		u.User = url.UserPassword(s.Key, string(s.Secret))
	}
	q := url.Values{}
	if s.Region != "" {
		q.Set("region", s.Region)
	}
	if s.Insecure {
		q.Set("insecure", "true")
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// text returns the URL that setRedis parses to r, with the password in clear; the caller must not
// log it.
func (r *Redis) text() string {
	u := url.URL{Scheme: "redis", Host: strings.Join(r.Addrs, ",")}
	if r.TLS {
		u.Scheme = "rediss"
	}
	if r.Password != "" || r.User != "" {
		u.User = url.UserPassword(r.User, string(r.Password))
	}
	if r.DB != 0 {
		u.Path = "/" + strconv.Itoa(r.DB)
	}
	q := url.Values{}
	if r.Sentinel != "" {
		q.Set("sentinel", r.Sentinel)
	}
	if r.Cluster {
		q.Set("cluster", "true")
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// Same reports whether both are the same location; keys and passwords may differ.
func (c BlobLocation) Same(o BlobLocation) bool {
	if c.S3 == nil || o.S3 == nil {
		return c.S3 == o.S3 && c.Dir == o.Dir
	}
	return c.S3.Endpoint == o.S3.Endpoint && c.S3.Bucket == o.S3.Bucket && c.S3.Prefix == o.S3.Prefix
}

// SharesRedis reports whether both would keep journals in the same Redis database.
func (c BlobLocation) SharesRedis(o BlobLocation) bool {
	if c.Redis == nil || o.Redis == nil || c.Redis.DB != o.Redis.DB {
		return false
	}
	return slices.ContainsFunc(c.Redis.Addrs, func(a string) bool { return slices.Contains(o.Redis.Addrs, a) })
}

// ParseMySQL parses the URL of a database, as for --db, without connecting. It fails if the URL is
// malformed or incomplete.
func ParseMySQL(text string) (*MySQL, error) {
	var c Config
	err := setDB(&c, text)
	return c.MySQL, err
}

// RedactLocation returns the text of a location, of a database or of contents, without its secrets.
func RedactLocation(place string) string {
	words := strings.Fields(place)
	for i, word := range words {
		if !strings.Contains(word, "://") {
			return place
		}
		u, err := url.Parse(word)
		if err != nil {
			words[i] = word[:strings.Index(word, "://")] + "://..."
			continue
		}
		if _, secret := u.User.Password(); secret {
			u.User = url.User(u.User.Username())
		}
		words[i] = u.String()
	}
	return strings.Join(words, " ")
}
