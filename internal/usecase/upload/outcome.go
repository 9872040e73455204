package upload

import (
	"errors"

	"smartdrive/internal/base/drive"
)

// outcome is what an attempt without an error came to.
type outcome uint8

const (
	settled outcome = iota // it is done
	again                  // somebody else was first, and nothing of the request was used: another attempt sees what the upload has become
)

// maxAttempts bounds how often a request starts again because somebody else has changed its upload
// meanwhile.
const maxAttempts = 4

// attempts runs try until it is settled.
func attempts(try func() (outcome, error)) error {
	for range maxAttempts {
		if out, err := try(); err != nil || out == settled {
			return err
		}
	}
	return comeAgain()
}

// comeAgain is what a client hears whose upload somebody else has changed too often: it may come
// again.
func comeAgain() error { return drive.Fail(drive.InProgress, "retry_after", 1) }

// errLost rolls a transaction back in which somebody else was first: what it was to change is no
// longer as it was read. It leaves no transaction: see unlessLost.
var errLost = drive.Fail(drive.InProgress, "retry_after", 1)

// unlessLost says what a transaction came to: whoever has read what it was to change reads again.
func unlessLost(err error) (outcome, error) {
	if errors.Is(err, errLost) {
		return again, nil
	}
	return settled, err
}
