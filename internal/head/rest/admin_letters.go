package rest

import (
	"context"
	"encoding/json"
	"strconv"

	"example.org/smartdrive/api"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/stream"
)

// deadLetters serves the routes for dead letters: records that their consumers failed to handle.
type deadLetters struct{ letters stream.DeadLetters }

// routes returns the declarations of the routes that deadLetters serves. It registers nothing.
func (d deadLetters) routes() []route {
	all := "/admin/dead-letters"
	return []route{
		{
			id: "listDeadLetters", method: "GET", path: all, access: admins, action: withoutBody(d.list), query: []param{limitParam, cursor},
			summary:  "List the records that nobody could handle, the oldest first.",
			outcomes: []outcome{jsonOutcome[api.Page[letterView]](200, "a page")}, errors: []drive.Kind{drive.CursorInvalid},
		}, {
			id: "getDeadLetter", method: "GET", path: all + "/{id}", access: admins, action: withoutBody(d.get),
			summary:  "Show one.",
			outcomes: []outcome{jsonOutcome[letterView](200, "the record")}, errors: []drive.Kind{drive.NotFound},
		}, {
			id: "replayDeadLetter", method: "POST", path: all + "/{id}/replay", access: admins, action: withoutBody(d.replay),
			summary:  "Hand one to its consumer again.",
			outcomes: []outcome{emptyOutcome(204, "it is on its way")}, errors: []drive.Kind{drive.NotFound},
		}, {
			id: "replayDeadLetters", method: "POST", path: all + "/replay", access: admins, action: withJSON(d.replayMany),
			summary:  "Hand several to their consumers again. Those that are not there any more are left out, so the request may be repeated.",
			outcomes: []outcome{jsonOutcome[replayedLetters](200, "how many are on their way")},
		}, {
			id: "deleteDeadLetter", method: "DELETE", path: all + "/{id}", access: admins, action: withoutBody(d.drop),
			summary:  "Forget one.",
			outcomes: []outcome{emptyOutcome(204, "it is gone")}, errors: []drive.Kind{drive.NotFound},
		},
	}
}

// letterView is the JSON in replies to GET /admin/dead-letters, GET /admin/dead-letters/{id}.
type letterView struct {
	ID        string          `json:"id"`
	Consumer  string          `json:"consumer"`
	Topic     stream.Topic    `json:"topic"`
	AccountID string          `json:"account_id,omitempty"`
	Event     json.RawMessage `json:"event"` // a CloudEvent; a JSON string if it is not valid JSON
	Failures  int             `json:"failures"`
	Code      string          `json:"code"`  // problem code
	Error     string          `json:"error"` // error text of the last attempt, for operators
	DiedAt    drive.Time      `json:"died_at"`
}

// showLetter converts its argument to the letterView that replies contain. It does no I/O.
func showLetter(d stream.DeadLetter) letterView {
	event := json.RawMessage(d.Event)
	if !json.Valid(event) {
		event, _ = json.Marshal(string(d.Event)) // encoding a string cannot fail
	}
	return letterView{letterID(d), d.Consumer, d.Topic, d.Key, event, d.Failures, d.Failure.Kind, d.Failure.Text, d.DiedAt}
}

// letterID returns the id of a dead letter as the API shows it, in decimal.
func letterID(d stream.DeadLetter) string { return strconv.FormatInt(int64(d.ID), 10) }

// parseLetter parses an id that letterID has formatted. It fails with drive.NotFound on any other
// text.
func parseLetter(s string) (stream.DeadID, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 1 || strconv.FormatInt(n, 10) != s {
		return 0, drive.Wrap(err, drive.NotFound)
	}
	return stream.DeadID(n), nil
}

// list serves GET /admin/dead-letters. It replies 200 with api.Page[letterView]. Beyond the
// errors common to all routes it fails with drive.CursorInvalid.
func (d deadLetters) list(ctx context.Context, c *call) (reply, error) {
	var since stream.DeadID
	if text := c.query.Get(cursor.name); text != "" {
		var err error
		if since, err = parseLetter(text); err != nil {
			return reply{}, drive.Wrap(err, drive.CursorInvalid)
		}
	}
	letters, err := d.letters.List(ctx, c.limit(), since)
	if err != nil {
		return reply{}, err
	}
	page := api.Page[letterView]{Items: make([]letterView, len(letters))}
	for i, d := range letters {
		page.Items[i] = showLetter(d)
	}
	if n := len(page.Items); n == c.limit() { // List returns at most a page, so a full page may have a successor
		page.NextCursor = &page.Items[n-1].ID
	}
	return ok(page)
}

// get serves GET /admin/dead-letters/{id}. It replies 200 with letterView. Beyond the errors common
// to all routes it fails with drive.NotFound.
func (d deadLetters) get(ctx context.Context, c *call) (reply, error) {
	id, err := parseLetter(c.r.PathValue("id"))
	if err != nil {
		return reply{}, err
	}
	letter, err := d.letters.Get(ctx, id)
	if err != nil {
		return reply{}, err
	}
	return ok(showLetter(letter))
}

// replay serves POST /admin/dead-letters/{id}/replay. It replies 204 without a body. Beyond the
// errors common to all routes it fails with drive.NotFound. The record is handed to its consumer
// again in the background.
func (d deadLetters) replay(ctx context.Context, c *call) (reply, error) {
	id, err := parseLetter(c.r.PathValue("id"))
	if err != nil {
		return reply{}, err
	}
	return empty(d.letters.Replay(ctx, id))
}

// maxReplays bounds the dead letters that one request replays; each is a transaction of its own.
const maxReplays = 1000

// replayLetters is the JSON request body of POST /admin/dead-letters/replay.
type replayLetters struct {
	IDs []string `json:"ids" doc:"ids of dead letters, 1 to 1,000"`
}

// replayedLetters is the JSON in replies to POST /admin/dead-letters/replay.
type replayedLetters struct {
	Replayed int `json:"replayed" doc:"number of letters that still existed"`
}

// replayMany replays dead letters one by one and skips ids that do not exist any more. If a replay
// fails, the letters before it are replayed already, and the client may repeat the request.
func (d deadLetters) replayMany(ctx context.Context, _ *call, in *replayLetters) (reply, error) {
	if n := len(in.IDs); n < 1 || n > maxReplays {
		return reply{}, drive.BadField("ids", drive.OutOfRange, "min", 1, "max", maxReplays, "sent", n)
	}
	var out replayedLetters
	for _, text := range in.IDs {
		id, err := parseLetter(text)
		if err != nil {
			return reply{}, drive.BadField("ids", drive.Malformed, "expected", "the id of a dead letter", "sent", clip(text))
		}
		switch err := d.letters.Replay(ctx, id); {
		case err == nil:
			out.Replayed++
		case !drive.IsKind(err, drive.NotFound):
			return reply{}, err
		}
	}
	return ok(out)
}

// drop serves DELETE /admin/dead-letters/{id}. It replies 204 without a body. Beyond the errors
// common to all routes it fails with drive.NotFound. The record is deleted without being handled.
func (d deadLetters) drop(ctx context.Context, c *call) (reply, error) {
	id, err := parseLetter(c.r.PathValue("id"))
	if err != nil {
		return reply{}, err
	}
	return empty(d.letters.Drop(ctx, id))
}
