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

	"example.org/smartdrive/internal/base/drive"
)

// diskFullCodes holds the error codes of stores that are full. Amazon S3 has none.
var diskFullCodes = map[string]bool{
	"InsufficientStorage": true, "XMinioStorageFull": true, "QuotaExceeded": true, "XMinioAdminBucketQuotaExceeded": true,
	"StorageFull": true,
}

// classify wraps an error of the S3 client with its kind; nil and drive.Errors stay as they are.
// Every error that may be transient is Unavailable: an unreachable store, throttling, or refused
// credentials, which may be in the middle of a rotation.
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
		return drive.Wrap(hideEOF(err), drive.Unavailable)
	}
	return err
}

// hideEOF replaces an error that wraps io.EOF by its text, because a lost connection must not look
// like the end of the content to a reader.
func hideEOF(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New(err.Error())
	}
	return err
}

// kindOf maps a response of the store to DiskFull, NotFound (of an object or upload, not of the
// bucket), Unavailable for what a retry or a repair of the bucket can cure, or else Internal.
func kindOf(e minio.ErrorResponse) drive.Kind {
	switch {
	case diskFullCodes[e.Code] || e.StatusCode == http.StatusInsufficientStorage:
		return drive.DiskFull
	case e.Code == minio.NoSuchBucket: // does not mean that the upload or content is gone
		return drive.Unavailable
	case e.StatusCode == http.StatusNotFound:
		return drive.NotFound
	case e.StatusCode >= http.StatusInternalServerError, e.StatusCode == http.StatusTooManyRequests,
		e.StatusCode == http.StatusRequestTimeout, e.StatusCode == http.StatusForbidden, e.StatusCode == http.StatusUnauthorized,
		e.StatusCode == http.StatusConflict, // a conflict with the bucket's state or another request
		e.Code == "SlowDown", e.Code == "RequestTimeout", e.Code == "ExpiredToken",
		e.Code == "BadRequest": // the request was misread: see isMisread
		return drive.Unavailable
	default:
		return drive.Internal
	}
}

// isNetwork reports whether err comes from the connection and not from a response of the store. The
// request may have been executed.
func isNetwork(err error) bool {
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	if _, ok := errors.AsType[*url.Error](err); ok {
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

// hasCode reports whether err is a response of the store with one of codes.
func hasCode(err error, codes ...string) bool {
	e, ok := errors.AsType[minio.ErrorResponse](err)
	for _, code := range codes {
		if ok && e.Code == code {
			return true
		}
	}
	return false
}

// classifyRedis wraps transient errors of Redis as Unavailable (LOADING, READONLY, CLUSTERDOWN,
// OOM, no connection). ERR, WRONGTYPE and NOSCRIPT are programming errors and stay as they are.
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
