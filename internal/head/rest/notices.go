package rest

import (
	"context"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/notice"
	"example.org/smartdrive/internal/usecase/notify"
)

// noticesPath is a route path below prefix: /notices.
const noticesPath = "/notices"

// notices serves the routes for the caller's notifications.
type notices struct{ inbox *notify.Inbox }

// routes returns the declarations of the routes that notices serves. It registers nothing.
func (n notices) routes() []route {
	return []route{
		{
			id: "listNotifications", method: "GET", path: noticesPath, access: read, action: withoutBody(n.list),
			query: []param{{name: "unread", syntax: boolean, doc: "only those that the caller has not read"}, limitParam, cursor},
			summary: "List the caller's notices, the newest first: what was shared with them, roles that changed or end, exports, files that came by a collect " +
				"link. They are kept for 90 days, up to 1,000. The stream of events has the kind `notice` when there is a new one.",
			outcomes: []outcome{jsonOutcome[notify.NotificationPage](200, "a page")}, errors: []drive.Kind{drive.CursorInvalid},
		}, {
			id: "markNotificationsRead", method: "POST", path: noticesPath + "/read", access: write, action: withJSON(n.read),
			summary:  "Mark notifications as read: some, or one and all that are older. May be repeated.",
			outcomes: []outcome{jsonOutcome[unreadView](200, "how many are left")}, errors: []drive.Kind{drive.NotFound},
		}, {
			id: "getNotificationSettings", method: "GET", path: noticesPath + "/settings", access: read, action: withoutBody(n.settings),
			summary:  "Show how the caller is told.",
			outcomes: []outcome{jsonOutcome[notify.NotificationSettings](200, "the settings")},
		}, {
			id: "updateNotificationSettings", method: "PATCH", path: noticesPath + "/settings", access: write, action: withJSON(n.change),
			summary:  "Change how the caller is told. To an address that is new a code is sent by mail, and nothing else until it is confirmed: five codes a day at most.",
			outcomes: []outcome{jsonOutcome[notify.NotificationSettings](200, "the settings")}, errors: []drive.Kind{drive.WrongState, drive.Rate},
		}, {
			id: "confirmNotificationAddress", method: "POST", path: noticesPath + "/settings/confirm", access: write, action: withJSON(n.confirm), secret: true,
			summary:  "Confirm the address with the code that was sent to it: within 30 minutes, and at most five wrong ones.",
			outcomes: []outcome{jsonOutcome[notify.NotificationSettings](200, "the settings")},
		},
	}
}

// list serves GET /notices. It replies 200 with notify.NotificationPage. Beyond the errors common
// to all routes it fails with drive.CursorInvalid.
func (n notices) list(ctx context.Context, c *call) (reply, error) {
	return answer(n.inbox.List(ctx, c.who, c.query.Get(cursor.name), c.limit(), c.flag("unread")))
}

// readBody is the JSON request body of POST /notices/read.
type readBody struct {
	IDs  []notice.ID `json:"ids,omitempty" doc:"ids of notifications, at most 1,000"`
	UpTo *notice.ID  `json:"up_to,omitempty" doc:"id of a notification: marks it and all older ones"`
}

// unreadView is the JSON in replies to POST /notices/read.
type unreadView struct {
	Unread int `json:"unread"`
}

// read serves POST /notices/read. It replies 200 with unreadView. Beyond the errors common to all
// routes it fails with drive.NotFound.
func (n notices) read(ctx context.Context, c *call, in *readBody) (reply, error) {
	m := notify.ReadMark{IDs: in.IDs}
	if in.UpTo != nil {
		m.UpTo = *in.UpTo
	}
	left, err := n.inbox.Read(ctx, c.who, m)
	return answer(unreadView{left}, err)
}

// settings serves GET /notices/settings. It replies 200 with notify.NotificationSettings.
func (n notices) settings(ctx context.Context, c *call) (reply, error) {
	return answer(n.inbox.Settings(ctx, c.who))
}

// noticeChangeBody is the JSON request body of PATCH /notices/settings.
type noticeChangeBody struct {
	Address  *string        `json:"address,omitempty" doc:"e-mail address; empty: no mail"`
	Language *string        `json:"language,omitempty" enum:"en,zh-CN" doc:"language of the mails"`
	Channels notice.Choices `json:"channels,omitempty" doc:"changed kinds, each off, page or mail; mail includes page"`
}

// change serves PATCH /notices/settings. It replies 200 with notify.NotificationSettings. Beyond
// the errors common to all routes it fails with drive.WrongState or drive.Rate.
func (n notices) change(ctx context.Context, c *call, in *noticeChangeBody) (reply, error) {
	return answer(n.inbox.Change(ctx, c.who, notify.Change{Address: in.Address, Language: in.Language, Channels: in.Channels}))
}

// confirmBody is the JSON request body of POST /notices/settings/confirm.
type confirmBody struct {
	Code string `json:"code" doc:"six digits"`
}

// confirm serves POST /notices/settings/confirm. It replies 200 with notify.NotificationSettings. A
// wrong code fails; five codes a day are sent at most.
func (n notices) confirm(ctx context.Context, c *call, in *confirmBody) (reply, error) {
	return answer(n.inbox.Confirm(ctx, c.who, in.Code))
}
