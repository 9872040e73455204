package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/activity"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/stream"
)

const (
	pageSize  = 50                 // entries that are read at once
	settleAt  = 20                 // entries that a crash repeats at most
	giveUp    = 3 * 24 * time.Hour // after which a webhook that fails is disabled, and after more attempts than there are delay levels
	maxAnswer = 64 << 10           // bytes of an answer that are read, so that its connection can be used again
)

// event is what is sent: CloudEvents 1.0.
type event struct {
	SpecVersion string     `json:"specversion"`
	ID          string     `json:"id"`
	Source      string     `json:"source"`
	Type        string     `json:"type"`
	Subject     string     `json:"subject,omitempty"` // the id of the node
	Time        drive.Time `json:"time"`
	ContentType string     `json:"datacontenttype"`
	Data        told       `json:"data"`
}

type told struct {
	Account drive.AccountID `json:"account_id"`
	Seq     int64           `json:"seq,omitempty"` // of the change of the tree: what GET /changes goes by
	By      drive.UserID    `json:"by,omitzero"`
	Node    drive.NodeID    `json:"node_id,omitzero"`
	Folder  drive.NodeID    `json:"folder_id,omitzero"`
	Name    string          `json:"name,omitempty"`
	Details json.RawMessage `json:"details"`
}

// body is the event of an entry.
func (w *Webhooks) body(e activity.Entry) ([]byte, error) {
	ev := event{
		SpecVersion: "1.0", ID: e.EventID(), Source: w.opt.Source, Type: string(e.Verb), Time: e.At, ContentType: "application/json",
		Data: told{Account: e.Account, Seq: e.Seq, By: e.By.User, Node: e.Node, Folder: e.Folder, Name: e.Name, Details: e.Data},
	}
	if !e.Node.IsZero() {
		ev.Subject = e.Node.String()
	}
	return json.Marshal(ev)
}

// Sign is the signature of a request: Standard Webhooks 1.0.
func Sign(secret, id, timestamp string, body []byte) (string, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, secretPrefix))
	if err != nil {
		return "", fmt.Errorf("read the secret: %w", err)
	}
	mac := hmac.New(sha256.New, key)
	_, _ = io.WriteString(mac, id+"."+timestamp+".")
	_, _ = mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)), nil
}

// outcome is what came of one attempt.
type outcome struct {
	status int
	code   string        // what was wrong; empty: nothing
	wait   time.Duration // that the receiver asks for
}

func (o outcome) settled() bool { return o.code == "" }

// refused reports whether the receiver does not want this entry, and would not want it tomorrow.
func (o outcome) refused() bool {
	switch o.status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return o.status >= 400 && o.status < 500
}

// attempt sends an entry once.
func (w *Webhooks) attempt(ctx context.Context, h Hook, e activity.Entry) (outcome, error) {
	body, err := w.body(e)
	if err != nil {
		return outcome{}, err
	}
	timestamp := strconv.FormatInt(w.opt.Now().Unix(), 10)
	signature, err := w.sign(h, e.EventID(), timestamp, body)
	if err != nil {
		return outcome{}, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL, bytes.NewReader(body))
	if err != nil {
		return outcome{code: "address"}, nil //nolint:nilerr // the address is what is wrong
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "SmartDrive-Webhook/1")
	r.Header.Set("Webhook-Id", e.EventID())
	r.Header.Set("Webhook-Timestamp", timestamp)
	r.Header.Set("Webhook-Signature", signature)
	w.turns.attempt(h.ID, w.now())
	res, err := w.client.Do(r)
	if ctx.Err() != nil { // the program is being stopped: this says nothing about the receiver
		return outcome{}, ctx.Err()
	}
	if err != nil {
		return outcome{code: codeOf(err)}, nil //nolint:nilerr // the receiver's error is the outcome
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxAnswer))
	_ = res.Body.Close()
	o := outcome{status: res.StatusCode}
	if o.status < 200 || o.status > 299 {
		o.code = "status"
	}
	if n, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && n > 0 {
		o.wait = min(time.Duration(n)*time.Second, time.Hour)
	}
	return o, nil
}

// codeOf says in a word why a receiver was not reached.
func codeOf(err error) string {
	var timeout interface{ Timeout() bool }
	if errors.As(err, &timeout) && timeout.Timeout() {
		return "timeout"
	}
	return "unreachable"
}

// SendOnce sends one entry again, now, whatever the webhook's state, and returns what the receiver
// answered; 0: it was not reached. Errors: NotFound, WrongState {state: sending} while another one
// is being sent.
func (w *Webhooks) SendOnce(ctx context.Context, who drive.Who, id ID, eventID string) (status int, err error) {
	h, err := w.Find(ctx, who, id)
	if err != nil {
		return 0, err
	}
	e, err := w.parts.Log.Find(ctx, w.parts.DB, h.Account, eventID)
	if err != nil {
		return 0, err
	}
	if err := w.openSecrets(ctx, &h); err != nil {
		return 0, drive.Wrap(err, drive.WrongState, "state", "disabled")
	}
	if !w.turns.take(h.ID, h.Account, w.now()) {
		return 0, drive.Fail(drive.WrongState, "state", "sending")
	}
	defer w.turns.leave(h.ID, h.Account)
	o, err := w.attempt(ctx, h, e)
	return o.status, err
}

// deliver sends what waits for a webhook, until nothing does, its turn ends, or an attempt fails.
func (w *Webhooks) deliver(ctx context.Context, id ID) error {
	h, err := find(ctx, w.parts.DB, id)
	if err != nil || h.State != Active {
		return ignoreGone(err)
	}
	if reason, err := w.mayNot(ctx, h); err != nil || reason != "" {
		if err != nil {
			return err
		}
		return w.disable(ctx, h, reason)
	}
	if err := w.openSecrets(ctx, &h); err != nil {
		w.opt.Log.WarnContext(ctx, "the secret of a webhook cannot be opened", "webhook", h.ID, "error", err)
		return w.disable(ctx, h, NoSecret)
	}
	h.until = w.now().Add(turnTime)
	for ctx.Err() == nil {
		more, err := w.deliverPage(ctx, &h)
		if err != nil || !more {
			return err
		}
	}
	return nil
}

func ignoreGone(err error) error {
	if drive.IsKind(err, drive.NotFound) {
		return nil
	}
	return err
}

// mayNot says why nothing may be sent any more: whoever is good for the webhook lost the right to.
func (w *Webhooks) mayNot(ctx context.Context, h Hook) (Reason, error) {
	home, err := w.parts.Access.Home(ctx, w.parts.DB, h.User)
	if err == nil {
		err = w.may(ctx, drive.Who{User: h.User, Account: home}, h.Account)
	}
	if drive.IsKind(err, drive.NotFound, drive.Forbidden) {
		return RightLost, nil
	}
	return "", err
}

// deliverPage sends some entries. more is false when it is over for now.
func (w *Webhooks) deliverPage(ctx context.Context, h *Hook) (more bool, err error) {
	page, err := w.parts.Log.After(ctx, w.parts.DB, h.Account, h.Position, pageSize)
	if err != nil || len(page) == 0 {
		return false, err
	}
	at, unsettled := h.Position, 0
	for _, e := range page {
		if !activity.Sent(e.Verb, h.Types) {
			at = e.ID
			continue
		}
		o, err := w.attempt(ctx, *h, e)
		if ctx.Err() != nil { // the program is being stopped
			return false, w.settle(w.settleLate(ctx), h, at)
		}
		if err != nil {
			return false, errors.Join(err, w.settle(ctx, h, at))
		}
		if !o.settled() {
			return false, w.failed(ctx, h, at, e, o)
		}
		h.Status, h.Sent = int64(o.status), w.now()
		at, unsettled = e.ID, unsettled+1
		over := w.turns.ended(h.ID, w.now()) || w.now() >= h.until
		if unsettled >= settleAt || over {
			if err := w.settle(ctx, h, at); err != nil || over {
				return false, err
			}
			unsettled = 0
		}
	}
	return len(page) == pageSize, w.settle(ctx, h, at)
}

// errMoved says that somebody else has moved the position, a replay or another process, or that
// the secret is another one.
var errMoved = drive.Fail(drive.Unavailable)

// move writes the position with what else is set, if it is still where it was.
func (w *Webhooks) move(ctx context.Context, h *Hook, at activity.Position, set string, args ...any) error {
	err := w.parts.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		n, err := tx.Exec(ctx, "UPDATE webhooks SET position = ?, status = ?, sent_at = ?, "+set+" WHERE id = ? AND position = ? AND secret = ?",
			append(append([]any{int64(at), h.Status, h.Sent}, args...), h.ID, int64(h.Position), h.sealed)...)
		if err == nil && n == 0 {
			err = errMoved
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("settle what webhook %s was sent: %w", h.ID, err)
	}
	h.Position = at
	return nil
}

// settle moves the position behind what the receiver has, or does not want.
func (w *Webhooks) settle(ctx context.Context, h *Hook, at activity.Position) error {
	if at == h.Position {
		return nil
	}
	if err := w.move(ctx, h, at, "failures = 0, failing_since = 0, not_before = 0, error = ''"); err != nil {
		return err
	}
	h.Failures, h.FailingSince, h.NotBefore = 0, 0, 0
	return nil
}

// failed settles what came before the entry that failed, and says when it is tried again. One that
// was refused once for each delay level is passed over.
func (w *Webhooks) failed(ctx context.Context, h *Hook, at activity.Position, e activity.Entry, o outcome) error {
	if at != h.Position {
		h.Failures, h.FailingSince = 0, 0
	}
	now := w.now()
	h.Status, h.Sent = int64(o.status), now
	if h.FailingSince == 0 {
		h.FailingSince = now
	}
	h.Failures++
	levels := stream.Levels()
	switch {
	case o.status == http.StatusGone:
		return w.disable(ctx, *h, Gone)
	case now >= h.FailingSince.Add(giveUp) && h.Failures > int64(len(levels)): // the first attempts after a clock or a server stood still are few
		return w.disable(ctx, *h, Failing)
	case o.refused() && h.Failures > int64(len(levels)):
		w.opt.Log.WarnContext(ctx, "a receiver has refused an event for good", "webhook", h.ID, "event", e.EventID(), "status", o.status)
		return w.move(ctx, h, e.ID, "failures = 0, failing_since = ?, not_before = 0, skipped = skipped + 1, error = ?", h.FailingSince, o.code)
	}
	wait := max(levels[min(int(h.Failures), len(levels))-1].Delay, o.wait)
	return w.move(ctx, h, at, "failures = ?, failing_since = ?, not_before = ?, error = ?", h.Failures, h.FailingSince, now.Add(wait), o.code)
}

// disable stops a webhook, and tells so.
func (w *Webhooks) disable(ctx context.Context, h Hook, why Reason) error {
	err := w.write(ctx, drive.Who{}, h.Account, func(ctx context.Context, tx *sqldb.Tx) error {
		n, err := tx.Exec(ctx, "UPDATE webhooks SET state = ?, reason = ?, status = ?, sent_at = ?, updated_at = ? WHERE id = ? AND state = ?",
			Disabled, why, h.Status, h.Sent, w.now(), h.ID, Active)
		if err != nil || n == 0 {
			return err
		}
		h.State, h.Reason = Disabled, why
		if err := w.note(tx, activity.WebhookDisabled, h); err != nil {
			return err
		}
		return w.opt.Disabled(ctx, tx, h)
	})
	if err != nil {
		return fmt.Errorf("disable webhook %s: %w", h.ID, err)
	}
	return nil
}
