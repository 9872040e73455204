package s3

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/redis/go-redis/v9"

	"smartdrive/internal/base/drive"
)

// full are the codes by which stores say that nothing more goes in. Amazon never does.
var full = map[string]bool{
	"InsufficientStorage": true, "XMinioStorageFull": true, "QuotaExceeded": true, "XMinioAdminBucketQuotaExceeded": true,
	"StorageFull": true,
}

// classify gives errors of the S3 client their kind. Whatever of the store may pass is Unavailable:
// it is out of reach, throttles, or refuses credentials that somebody is changing.
func classify(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*drive.Error](err); ok {
		return err
	}
	if e, ok := errors.AsType[minio.ErrorResponse](err); ok {
		return drive.Wrap(err, kindOf(e))
	}
	if isNetwork(err) {
		return drive.Wrap(endless(err), drive.Unavailable)
	}
	return err
}

// endless keeps the text alone of an error that is io.EOF somewhere: a connection has ended, and
// readers of content would take it for the end of the content.
func endless(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New(err.Error())
	}
	return err
}

func kindOf(e minio.ErrorResponse) drive.Kind {
	switch {
	case full[e.Code] || e.StatusCode == http.StatusInsufficientStorage:
		return drive.DiskFull
	case e.Code == minio.NoSuchBucket: // no upload and no content is gone because the bucket is
		return drive.Unavailable
	case e.StatusCode == http.StatusNotFound:
		return drive.NotFound
	case e.StatusCode >= http.StatusInternalServerError, e.StatusCode == http.StatusTooManyRequests,
		e.StatusCode == http.StatusRequestTimeout, e.StatusCode == http.StatusForbidden, e.StatusCode == http.StatusUnauthorized,
		e.StatusCode == http.StatusConflict, // with what is in the bucket, or with another request
		e.Code == "SlowDown", e.Code == "RequestTimeout", e.Code == "ExpiredToken",
		e.Code == "BadRequest": // it was not understood at all: see isMisread
		return drive.Unavailable
	default:
		return drive.Internal
	}
}

// isNetwork reports whether a connection failed, and not what went through it.
func isNetwork(err error) bool {
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	if _, ok := errors.AsType[*url.Error](err); ok {
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

// hasCode reports whether the store answered with one of codes.
func hasCode(err error, codes ...string) bool {
	e, ok := errors.AsType[minio.ErrorResponse](err)
	for _, code := range codes {
		if ok && e.Code == code {
			return true
		}
	}
	return false
}

// classifyRedis gives errors of the Redis client their kind: what a server says by "ERR" and
// "WRONGTYPE" is our own mistake, all else passes (LOADING, READONLY, CLUSTERDOWN, OOM, no
// connection).
func classifyRedis(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[redis.Error](err); ok {
		for _, own := range []string{"ERR ", "WRONGTYPE ", "NOSCRIPT "} {
			if strings.HasPrefix(e.Error(), own) {
				return err
			}
		}
	}
	return drive.Wrap(err, drive.Unavailable)
}
