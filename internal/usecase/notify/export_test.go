package notify

import "context"

// TellOneByOne makes a teller tell that many members of groups of what one maker does in an hour.
func TellOneByOne(t *Teller, most int) { t.limiter.limit = most }

// MailDue mails once to those who are due.
func MailDue(ctx context.Context, p *Postman) error { return p.runOnce(ctx) }

// TellOfRoles makes a teller tell about that many people of roles that end in one call.
func TellOfRoles(t *Teller, most int) { t.roleScan.maxPeople = most }
