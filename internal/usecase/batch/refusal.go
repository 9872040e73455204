package batch

import (
	"bytes"
	"encoding/json"
	"errors"

	"smartdrive/internal/base/drive"
)

// decided reports whether an error is the answer to what was asked for, and none of a moment: a
// repeat is answered the same.
func decided(err error) bool {
	return drive.IsKind(err, drive.BadRequest, drive.BadName, drive.NotFound, drive.NameTaken, drive.ParentGone, drive.WrongState,
		drive.VersionChanged, drive.Locked, drive.Cycle, drive.Gone, drive.Precondition, drive.TooLarge, drive.Quota)
}

// passing reports whether an error is that of a moment, and may be gone in the next. It ends the
// batch, so that a repeat does nothing in another order.
func passing(err error) bool {
	return err != nil && drive.IsKind(err, drive.Unavailable, drive.Stopping, drive.InProgress, drive.Rate, drive.TooSlow, drive.DiskFull, drive.Internal)
}

// refusal is how a refusal is kept: the code of its kind, which never changes, and its args.
type refusal struct {
	Code string     `json:"code"`
	Args drive.Args `json:"args,omitempty"`
}

func packRefusal(err error) ([]byte, error) {
	kept := refusal{Code: drive.KindOf(err).String()}
	if known, ok := errors.AsType[*drive.Error](err); ok {
		kept.Args = known.Args
	}
	return json.Marshal(kept)
}

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
