package batch

import (
	"bytes"
	"encoding/json"
	"errors"

	"example.org/smartdrive/internal/base/drive"
)

// permanent reports whether an error is a permanent refusal, which a repeat returns again.
func permanent(err error) bool {
	return drive.IsKind(err, drive.BadRequest, drive.BadName, drive.NotFound, drive.NameTaken, drive.ParentGone, drive.WrongState,
		drive.VersionChanged, drive.Locked, drive.Cycle, drive.Gone, drive.Precondition, drive.TooLarge, drive.Quota)
}

// transient reports whether an error is transient. A transient error ends the batch, so that a
// repeat executes the items in the same order.
func transient(err error) bool {
	return err != nil && drive.IsKind(err, drive.Unavailable, drive.Stopping, drive.InProgress, drive.Rate, drive.TooSlow, drive.DiskFull, drive.Internal)
}

// refusal is a recorded refusal: the stable code of the error's kind, and its arguments.
type refusal struct {
	Code string     `json:"code"`
	Args drive.Args `json:"args,omitempty"`
}

// packRefusal encodes the kind and arguments of err as JSON for the replay record. Its own error
// means that an argument cannot be encoded.
func packRefusal(err error) ([]byte, error) {
	kept := refusal{Code: drive.KindOf(err).String()}
	if known, ok := errors.AsType[*drive.Error](err); ok {
		kept.Args = known.Args
	}
	return json.Marshal(kept)
}

// unpackRefusal returns the error that packRefusal encoded, without its cause. It returns Internal
// if the kind is unknown, and another error for text that is not JSON.
func unpackRefusal(raw []byte) error {
	var kept refusal
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&kept); err != nil {
		return err
	}
	for name, value := range kept.Args {
		if number, ok := value.(json.Number); ok {
			if n, err := number.Int64(); err == nil {
				kept.Args[name] = n
			}
		}
	}
	for _, kind := range drive.Kinds() {
		if kind.String() == kept.Code {
			return &drive.Error{Kind: kind, Args: kept.Args}
		}
	}
	return drive.Fail(drive.Internal)
}
