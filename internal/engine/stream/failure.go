package stream

import (
	"context"
	"errors"
	"strings"

	"smartdrive/internal/base/drive"
)

// MaxFailureText bounds what is kept of an error in bytes; the whole of it is in the log.
const MaxFailureText = 1 << 10

// FailureOf describes an error. It is for adapters of DeadLetters.Add.
func FailureOf(err error) Failure {
	if err == nil {
		return Failure{Kind: drive.Internal.String()}
	}
	text := err.Error()
	if len(text) > MaxFailureText {
		text = text[:MaxFailureText]
	}
	return Failure{Kind: drive.KindOf(err).String(), Text: strings.ToValidUTF8(text, "")}
}

// isOutage reports whether an error of a handler says nothing about its record, so that trying the
// next one is no better. A handler's own time-out does say something: a record that always takes
// too long would stop its consumer for ever.
func isOutage(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return true // the consumer is being stopped
	}
	var known *drive.Error
	if !errors.As(err, &known) {
		return false
	}
	return known.Kind == drive.Unavailable || known.Kind == drive.Stopping
}
