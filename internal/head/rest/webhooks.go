package rest

import (
	"context"
	"time"

	"example.org/smartdrive/api"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/webhook"
)

// webhooksPath is a route path below prefix: /webhooks.
const webhooksPath = "/webhooks"

// webhooks serves the routes for webhooks.
type webhooks struct{ webhooks *webhook.Webhooks }

// routes returns the declarations of the routes that webhooks serves. It registers nothing.
func (w webhooks) routes() []route {
	one := webhooksPath + "/{id}"
	return []route{
		{
			id: "listWebhooks", method: "GET", path: webhooksPath, access: read, action: withoutBody(w.list), query: []param{spaceParam},
			summary:  "List the webhooks of the caller's drive, or of a space that the caller manages.",
			outcomes: []outcome{jsonOutcome[api.Page[api.Webhook]](200, "all of them")}, errors: []drive.Kind{drive.NotFound, drive.Forbidden},
		}, {
			id: "createWebhook", method: "POST", path: webhooksPath, access: write, action: withJSON(w.create), idempotent: true, secret: true, createdPath: webhooksPath,
			summary: "Create a webhook: what happens from now on is sent to its address, in order and at least once, signed as Standard Webhooks 1.0 says. " +
				"The `secret` is in this answer alone.",
			outcomes: []outcome{jsonOutcome[api.Webhook](201, "the webhook")}, errors: []drive.Kind{drive.NotFound, drive.Forbidden, drive.TooManyOpen},
		}, {
			id: "getWebhook", method: "GET", path: one, access: read, action: byID(w.get),
			summary:  "Show a webhook, and how its last attempt went.",
			outcomes: []outcome{jsonOutcome[api.Webhook](200, "the webhook")}, errors: []drive.Kind{drive.NotFound},
		}, {
			id: "updateWebhook", method: "PATCH", path: one, access: write, action: byIDWithJSON(w.change),
			summary:  "Change a webhook. One that is made active again goes on where it stopped.",
			outcomes: []outcome{jsonOutcome[api.Webhook](200, "the webhook")}, errors: []drive.Kind{drive.NotFound},
		}, {
			id: "rotateWebhookSecret", method: "POST", path: one + "/secret", access: write, action: byIDWithJSON(w.rotate), idempotent: true, secret: true,
			summary:  "Rotate the secret of a webhook, which is in this answer alone. Requests are signed with the one before, too, for a while: `webhook-signature` has both then, separated by a space.",
			outcomes: []outcome{jsonOutcome[api.Webhook](201, "the webhook, with its new secret")}, errors: []drive.Kind{drive.NotFound},
		}, {
			id: "deleteWebhook", method: "DELETE", path: one, access: write, action: byID(w.remove),
			summary:  "Delete a webhook: nothing is sent to it any more.",
			outcomes: []outcome{emptyOutcome(204, "it is deleted")}, errors: []drive.Kind{drive.NotFound},
		}, {
			id: "replayWebhook", method: "POST", path: one + "/replay", access: write, action: byIDWithJSON(w.replay),
			summary:  "Send again: all that happened since a moment, in its order, or one event at once, whatever the state of the webhook. Ids are the same as before.",
			outcomes: []outcome{jsonOutcome[api.ReplayResult](200, "where the webhook is now, or how the receiver answered to the one event")},
			errors:   []drive.Kind{drive.NotFound, drive.WrongState},
		},
	}
}

// showWebhook returns the wire form of a webhook.
func showWebhook(_ *call, h webhook.Hook) api.Webhook {
	return api.Webhook{
		ID: h.ID.String(), Account: h.Account.String(), Name: h.Name, URL: h.URL, Types: append([]string{}, h.Types...), State: string(h.State),
		Reason: string(h.Reason), Skipped: h.Skipped, Failures: h.Failures, Status: h.Status, Error: h.Error, SentAt: timeOrNil(h.Sent),
		NextAt: timeOrNil(h.NotBefore), CreatedAt: showTime(h.Created), UpdatedAt: showTime(h.Updated), OldUntil: timeOrNil(h.OldSecretUntil),
		Secret: h.Secret,
	}
}

// list serves GET /webhooks. It replies 200 with api.Page[api.Webhook]. Beyond the errors common
// to all routes it fails with drive.NotFound or drive.Forbidden.
func (w webhooks) list(ctx context.Context, c *call) (reply, error) {
	all, err := w.webhooks.List(ctx, c.who, c.query.Get(spaceParam.name))
	if err != nil {
		return reply{}, err
	}
	page := api.Page[api.Webhook]{Items: make([]api.Webhook, len(all))}
	for i, h := range all {
		page.Items[i] = showWebhook(c, h)
	}
	return ok(page)
}

// webhookBody is the JSON request body of POST /webhooks.
type webhookBody struct {
	URL   string   `json:"url" doc:"http or https URL; addresses inside the server's network are refused, now and at delivery"`
	Name  string   `json:"name,omitempty" doc:"label, at most 200 bytes"`
	Types []string `json:"types,omitempty" doc:"event types such as node.created, or a prefix such as node; absent: all except upload"`
	Space string   `json:"space,omitempty" doc:"name or id of a space; absent: the caller's own drive"`
}

// create serves POST /webhooks. It replies 201 with api.Webhook. Beyond the errors common to all
// routes it fails with drive.NotFound, drive.Forbidden or drive.TooManyOpen.
func (w webhooks) create(ctx context.Context, c *call, in *webhookBody) (reply, error) {
	wish := webhook.HookChange{Place: in.Space, URL: &in.URL, Name: &in.Name, Types: &in.Types}
	return makeOnce(ctx, c, showWebhook, func(keep storeResponse[webhook.Hook]) (webhook.Hook, error) {
		return w.webhooks.Create(ctx, c.who, wish, webhook.CommitHook(keep))
	})
}

// get serves GET /webhooks/{id}. It replies 200 with api.Webhook. Beyond the errors common to all
// routes it fails with drive.NotFound.
func (w webhooks) get(ctx context.Context, c *call, id webhook.ID) (reply, error) {
	return replyWith(c, showWebhook)(w.webhooks.Find(ctx, c.who, id))
}

// webhookChangeBody is the JSON request body of PATCH /webhooks/{id}.
type webhookChangeBody struct {
	URL   *string        `json:"url,omitempty"`
	Name  *string        `json:"name,omitempty"`
	Types *[]string      `json:"types,omitempty"`
	State *webhook.State `json:"state,omitempty" enum:"active,disabled"`
}

// change serves PATCH /webhooks/{id}. It replies 200 with api.Webhook. Beyond the errors common to
// all routes it fails with drive.NotFound.
func (w webhooks) change(ctx context.Context, c *call, id webhook.ID, in *webhookChangeBody) (reply, error) {
	return replyWith(c, showWebhook)(w.webhooks.Change(ctx, c.who, id, webhook.HookChange{URL: in.URL, Name: in.Name, Types: in.Types, State: in.State}))
}

// remove serves DELETE /webhooks/{id}. It replies 204 without a body. Beyond the errors common to
// all routes it fails with drive.NotFound.
func (w webhooks) remove(ctx context.Context, c *call, id webhook.ID) (reply, error) {
	return empty(w.webhooks.Delete(ctx, c.who, id))
}

// rotateBody is the JSON request body of POST /webhooks/{id}/secret.
type rotateBody struct {
	KeepFor *int64 `json:"keep_for,omitempty" nullable:"true" minimum:"0" maximum:"604800" doc:"seconds that requests are also signed with the old secret; absent: one day; 0: not at all"`
}

// rotate serves POST /webhooks/{id}/secret. It replies 201 with api.Webhook. Beyond the errors
// common to all routes it fails with drive.NotFound. The old secret signs as well for the time that
// the body names.
func (w webhooks) rotate(ctx context.Context, c *call, id webhook.ID, in *rotateBody) (reply, error) {
	keep := 24 * time.Hour
	if in.KeepFor != nil {
		if *in.KeepFor < 0 || *in.KeepFor > int64(webhook.MaxSecretOverlap/time.Second) {
			return reply{}, drive.BadField("keep_for", drive.OutOfRange, "min", 0, "max", int64(webhook.MaxSecretOverlap/time.Second))
		}
		keep = time.Duration(*in.KeepFor) * time.Second
	}
	return makeOnce(ctx, c, showWebhook, func(done storeResponse[webhook.Hook]) (webhook.Hook, error) {
		return w.webhooks.Rotate(ctx, c.who, id, keep, webhook.CommitHook(done))
	})
}

// replayBody is the JSON request body of POST /webhooks/{id}/replay.
type replayBody struct {
	Event string      `json:"event,omitempty" doc:"id of one event, sent immediately"`
	Since *drive.Time `json:"since,omitempty" doc:"sends all events from this time on"`
}

// replay serves POST /webhooks/{id}/replay. It replies 200 with api.ReplayResult. Beyond the errors
// common to all routes it fails with drive.NotFound or drive.WrongState.
func (w webhooks) replay(ctx context.Context, c *call, id webhook.ID, in *replayBody) (reply, error) {
	switch {
	case in.Event != "":
		status, err := w.webhooks.SendOnce(ctx, c.who, id, in.Event)
		return answer(api.ReplayResult{Status: &status}, err)
	case in.Since != nil:
		h, err := w.webhooks.Replay(ctx, c.who, id, in.Since.Std())
		view := showWebhook(c, h)
		return answer(api.ReplayResult{Webhook: &view}, err)
	}
	return reply{}, drive.BadField("since", drive.Required)
}
