package stream

import (
	"context"
	"errors"
	"strings"

	"example.org/smartdrive/internal/base/drive"
)

// MaxFailureText bounds the stored text of an error, in bytes; the log has the full text.
const MaxFailureText = 1 << 10

// FailureOf describes an error for storage. A nil error gives kind Internal without text. Adapters
// use it in DeadLetters.Add.
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

// isOutage reports whether a handler's error is independent of its record, so that other records
// would fail too. A timeout of the handler itself is not an outage: a record that always times out
// would otherwise block its consumer forever.
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
