package upload

import (
	"errors"

	"example.org/smartdrive/internal/base/drive"
)

// outcome is the result of an attempt that returned no error.
type outcome uint8

const (
	finished outcome = iota // the attempt is complete
	retry                   // a concurrent change won and nothing of the request was used: try again with the new state
)

// maxAttempts bounds how often a request retries after concurrent changes of its upload.
const maxAttempts = 4

// withRetry runs try until it returns finished or an error; errBusy after maxAttempts.
func withRetry(try func() (outcome, error)) error {
	for range maxAttempts {
		if out, err := try(); err != nil || out == finished {
			return err
		}
	}
	return errBusy()
}

// errBusy returns the InProgress error that tells the client to retry: the upload kept changing
// under concurrent requests.
func errBusy() error { return drive.Fail(drive.InProgress, "retry_after", 1) }

// errStale rolls back a transaction whose row has changed since it was read. retryIfStale converts
// it right after the transaction.
var errStale = drive.Fail(drive.InProgress, "retry_after", 1)

// retryIfStale maps errStale to retry, so that the caller reads the row again and repeats its work.
func retryIfStale(err error) (outcome, error) {
	if errors.Is(err, errStale) {
		return retry, nil
	}
	return finished, err
}
