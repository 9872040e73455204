package notify

import "context"

// MailDue mails once to those who are due.
func MailDue(ctx context.Context, p *Postman) error { return p.runOnce(ctx) }
