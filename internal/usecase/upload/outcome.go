package upload

import (
	"errors"

	"smartdrive/internal/base/drive"
)

// outcome is what an attempt without an error came to.
type outcome uint8

const (
	settled outcome = iota // it is done
	again                  // the upload changed before anything of the request was used: another attempt sees what it has become
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

// errLost says that somebody else was first: what a transaction was to change is no longer as it
// was read. The transaction is rolled back, and whoever has read it reads again (inTurn); if that
// happens too often, the client may come again.
var errLost = drive.Fail(drive.InProgress, "retry_after", 1)

// unlessLost says what a transaction came to.
func unlessLost(err error) (outcome, error) {
	if errors.Is(err, errLost) {
		return again, nil
	}
	return settled, err
}
