package notify

import "context"

// TellOneByOne sets the number of group members that are notified individually per maker and hour.
func TellOneByOne(t *Notifier, most int) { t.limiter.limit = most }

// MailDue sends the mails that are due.
func MailDue(ctx context.Context, p *Mailer) error { return p.runOnce(ctx) }

// TellOfRoles sets the number of users that one call notifies of expiring roles.
func TellOfRoles(t *Notifier, most int) { t.roleScan.maxPeople = most }
