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

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/activity"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/stream"
)

// Bounds of one delivery.
const (
	pageSize     = 50                 // entries read at once
	settleBatch  = 20                 // settled entries per position update; a crash resends at most these
	disableAfter = 3 * 24 * time.Hour // failing for this long, and for more attempts than there are delay levels, disables a webhook
	maxResponse  = 64 << 10           // bytes read of a response, so that its connection can be reused
)

// Event is a CloudEvents 1.0 event as sent.
type Event struct {
	SpecVersion string     `json:"specversion"`
	ID          string     `json:"id"`
	Source      string     `json:"source"`
	Type        string     `json:"type"`
	Subject     string     `json:"subject,omitempty"` // id of the node
	Time        drive.Time `json:"time"`
	ContentType string     `json:"datacontenttype"`
	Data        EventData  `json:"data"`
}

// EventData is the data of an event.
type EventData struct {
	Account drive.AccountID `json:"account_id"`
	Seq     int64           `json:"seq,omitempty"` // seq of the tree's change, as in GET /changes
	By      drive.UserID    `json:"by,omitzero"`
	Node    drive.NodeID    `json:"node_id,omitzero"`
	Folder  drive.NodeID    `json:"folder_id,omitzero"`
	Name    string          `json:"name,omitempty"`
	Details json.RawMessage `json:"details"`
}

// body returns the JSON of an entry as a CloudEvents 1.0 event. It fails only for details that are
// not JSON.
func (w *Webhooks) body(e activity.Entry) ([]byte, error) {
	ev := Event{
		SpecVersion: "1.0", ID: e.EventID(), Source: w.opt.Source, Type: string(e.Verb), Time: e.At, ContentType: "application/json",
		Data: EventData{Account: e.Account, Seq: e.Seq, By: e.By.User, Node: e.Node, Folder: e.Folder, Name: e.Name, Details: e.Data},
	}
	if !e.Node.IsZero() {
		ev.Subject = e.Node.String()
	}
	return json.Marshal(ev)
}

// Sign returns the Standard Webhooks 1.0 signature of a request, "v1," and base64. It fails if
// secret is not base64 after its prefix.
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

// outcome is the receiver's answer to one attempt. An empty code means that the entry was accepted.
type outcome struct {
	// HTTP status; 0: no response
	status int
	code   string        // problem code; empty: delivered
	wait   time.Duration // Retry-After of the receiver
}

// isDelivered reports whether the receiver accepted the entry; else code tells why not.
func (o outcome) isDelivered() bool { return o.code == "" }

// isRejected reports whether the receiver permanently rejects this entry, by a 4xx other than 408,
// 425 and 429.
func (o outcome) isRejected() bool {
	switch o.status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return o.status >= 400 && o.status < 500
}

// attempt sends an entry once. A failure of the receiver is an outcome; the error is for failures
// on this side and for ctx.
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
	w.limiter.attemptStarted(h.ID, w.now())
	res, err := w.client.Do(r)
	if ctx.Err() != nil { // the server is stopping; this is no failure of the receiver
		return outcome{}, ctx.Err()
	}
	if err != nil {
		return outcome{code: errorCode(err)}, nil //nolint:nilerr // the receiver's error is the outcome
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxResponse))
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

// errorCode returns the problem code of a request that got no response: timeout or unreachable.
func errorCode(err error) string {
	var timeout interface{ Timeout() bool }
	if errors.As(err, &timeout) && timeout.Timeout() {
		return "timeout"
	}
	return "unreachable"
}

// SendOnce sends one entry to a webhook in any state, without a retry, and returns the receiver's
// status; 0: no response. It stores nothing about the attempt. It fails with NotFound, with
// WrongState {state: sending} while entries are being sent to the webhook or too many others, and
// with WrongState {state: disabled} if the secret cannot be decrypted.
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
	if !w.limiter.acquire(h.ID, h.Account, w.now()) {
		return 0, drive.Fail(drive.WrongState, "state", "sending")
	}
	defer w.limiter.release(h.ID, h.Account)
	o, err := w.attempt(ctx, h, e)
	return o.status, err
}

// deliver sends entries to a webhook until none is left, its turn ends, or an attempt fails. It
// disables a webhook whose user lost the right, or whose secret cannot be decrypted.
func (w *Webhooks) deliver(ctx context.Context, id ID) error {
	h, err := find(ctx, w.parts.DB, id)
	if err != nil || h.State != Active {
		return ignoreNotFound(err)
	}
	if reason, err := w.checkRight(ctx, h); err != nil || reason != "" {
		if err != nil {
			return err
		}
		return w.disable(ctx, h, reason)
	}
	if err := w.openSecrets(ctx, &h); err != nil {
		w.opt.Log.WarnContext(ctx, "webhook disabled: its secret cannot be decrypted; rotate its secret and activate it again", "webhook", h.ID, "error", err)
		return w.disable(ctx, h, NoSecret)
	}
	h.turnEnd = w.now().Add(maxTurn)
	for ctx.Err() == nil {
		more, err := w.deliverPage(ctx, &h)
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// ignoreNotFound returns nil if err is NotFound, since the webhook was deleted meanwhile, else err.
func ignoreNotFound(err error) error {
	if drive.IsKind(err, drive.NotFound) {
		return nil
	}
	return err
}

// checkRight returns RightLost if the user responsible for the webhook may not manage webhooks of
// the account any more; "" otherwise.
func (w *Webhooks) checkRight(ctx context.Context, h Hook) (Reason, error) {
	home, err := w.parts.Access.Home(ctx, w.parts.DB, h.User)
	if err == nil {
		err = w.authorizeAccount(ctx, drive.Who{User: h.User, Account: home}, h.Account)
	}
	if drive.IsKind(err, drive.NotFound, drive.Forbidden) {
		return RightLost, nil
	}
	return "", err
}

// deliverPage sends the next entries in order and stores the position up to which they are
// delivered or skipped. more reports that the turn goes on with another page. A refusal by the
// receiver is stored as a failure and no error.
func (w *Webhooks) deliverPage(ctx context.Context, h *Hook) (more bool, err error) {
	page, err := w.parts.Log.ListAfter(ctx, w.parts.DB, h.Account, h.Position, pageSize)
	if err != nil || len(page) == 0 {
		return false, err
	}
	at, unsettled := h.Position, 0
	for _, e := range page {
		if !activity.SentToWebhook(e.Verb, h.Types) {
			at = e.ID
			continue
		}
		o, err := w.attempt(ctx, *h, e)
		if ctx.Err() != nil { // the server is stopping
			return false, w.settle(w.contextAfterCancel(ctx), h, at)
		}
		if err != nil {
			return false, errors.Join(err, w.settle(ctx, h, at))
		}
		if !o.isDelivered() {
			return false, w.recordFailure(ctx, h, at, e, o)
		}
		h.Status, h.Sent = int64(o.status), w.now()
		at, unsettled = e.ID, unsettled+1
		over := w.limiter.attemptEnded(h.ID, w.now()) || w.now() >= h.turnEnd
		if unsettled >= settleBatch || over {
			if err := w.settle(ctx, h, at); err != nil || over {
				return false, err
			}
			unsettled = 0
		}
	}
	return len(page) == pageSize, w.settle(ctx, h, at)
}

// errStale reports that the webhook's position or secret was changed concurrently, by a replay, a
// rotation or another process.
var errStale = drive.Fail(drive.Unavailable)

// advance stores the position at, the status, the time of the attempt, and the further columns in
// set by a compare-and-set on position and secret. It then sets h.Position. It fails with errStale
// if position or secret have changed.
func (w *Webhooks) advance(ctx context.Context, h *Hook, at activity.Position, set string, args ...any) error {
	err := w.parts.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		n, err := tx.Exec(ctx, "UPDATE webhooks SET position = ?, status = ?, sent_at = ?, "+set+" WHERE id = ? AND position = ? AND secret = ?",
			append(append([]any{int64(at), h.Status, h.Sent}, args...), h.ID, int64(h.Position), h.sealed)...)
		if err == nil && n == 0 {
			err = errStale
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("settle what webhook %s was sent: %w", h.ID, err)
	}
	h.Position = at
	return nil
}

// settle stores that entries up to position at are delivered or skipped and resets the failures, in
// the row and in h. It does nothing if at is the position of h.
func (w *Webhooks) settle(ctx context.Context, h *Hook, at activity.Position) error {
	if at == h.Position {
		return nil
	}
	if err := w.advance(ctx, h, at, "failures = 0, failing_since = 0, not_before = 0, error = ''"); err != nil {
		return err
	}
	h.Failures, h.FailingSince, h.NotBefore = 0, 0, 0
	return nil
}

// recordFailure settles the entries before the failed one and schedules a retry. It skips the entry
// if it was rejected more often than there are delay levels, and disables the webhook on 410 or
// after failing for disableAfter.
func (w *Webhooks) recordFailure(ctx context.Context, h *Hook, at activity.Position, e activity.Entry, o outcome) error {
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
	case now >= h.FailingSince.Add(disableAfter) && h.Failures > int64(len(levels)): // require several attempts, because the clock or the server may have stood still
		return w.disable(ctx, *h, Failing)
	case o.isRejected() && h.Failures > int64(len(levels)):
		w.opt.Log.WarnContext(ctx, "webhook event skipped: the receiver keeps rejecting it", "webhook", h.ID, "event", e.EventID(), "status", o.status)
		return w.advance(ctx, h, e.ID, "failures = 0, failing_since = ?, not_before = 0, skipped = skipped + 1, error = ?", h.FailingSince, o.code)
	}
	wait := max(levels[min(int(h.Failures), len(levels))-1].Delay, o.wait)
	return w.advance(ctx, h, at, "failures = ?, failing_since = ?, not_before = ?, error = ?", h.Failures, h.FailingSince, now.Add(wait), o.code)
}

// disable disables an active webhook, and within the same transaction records it as activity and
// calls Options.OnDisabled. A webhook that is not active stays as it is.
func (w *Webhooks) disable(ctx context.Context, h Hook, why Reason) error {
	err := w.write(ctx, drive.Who{}, h.Account, func(ctx context.Context, tx *sqldb.Tx) error {
		n, err := tx.Exec(ctx, "UPDATE webhooks SET state = ?, reason = ?, status = ?, sent_at = ?, updated_at = ? WHERE id = ? AND state = ?",
			Disabled, why, h.Status, h.Sent, w.now(), h.ID, Active)
		if err != nil || n == 0 {
			return err
		}
		h.State, h.Reason = Disabled, why
		if err := w.record(tx, activity.WebhookDisabled, h); err != nil {
			return err
		}
		return w.opt.OnDisabled(ctx, tx, h)
	})
	if err != nil {
		return fmt.Errorf("disable webhook %s: %w", h.ID, err)
	}
	return nil
}
