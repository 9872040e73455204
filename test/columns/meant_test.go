package columns

import "regexp"

// difference is one between two columns that is meant.
type difference struct {
	what string
	why  string
	on   func(c *column) bool
	hide *regexp.Regexp // what differs in the answers; nil: the script goes round it, at the place that is named
}

// meant are all differences that there may be. What is not here is a defect.
var meant = []difference{
	{
		what: "the least part size is 8 MiB instead of 1 MiB (begin asks for no other below 8 MiB than 1 byte)",
		why:  "S3 takes no part below 5 MiB but the last one, and a part size is a power of two",
		on:   func(c *column) bool { return c.s3 },
		hide: regexp.MustCompile(`("min":|out of range; allowed: )(1048576|8388608)\b`),
	}, {
		what: "a token that has ended acts for up to 5 s at the instances that did not end it (actor.atLast waits)",
		why:  "each instance acts on a row for 5 s before it reads it again: a request is to cost no query",
		on:   (*column).several,
	}, {
		what: "an upload of unknown length reserves room at each instance that gets parts of it, so 507 may come while another instance still has some (actor.siteFor keeps such an upload at one)",
		why:  "an instance does not know what the others have begun to use of a grant, and no part is to cost a query",
		on:   (*column).several,
	}, {
		what: "failed logins are counted by each instance (logIn makes too few to be slowed down)",
		why:  "guessing is slowed down, not made impossible; n instances make it n times as fast and still hopeless",
		on:   (*column).several,
	}, {
		what: "requests in flight, POSTs a second and wake-ups of parked uploads are counted by each instance (a script does one thing at a time)",
		why:  "they protect an instance, not the user's account",
		on:   (*column).several,
	},
}

// overlook removes from a reply what differs between columns by design.
func overlook(c *column, text string) string {
	for _, d := range meant {
		if d.hide != nil && d.on(c) {
			text = d.hide.ReplaceAllString(text, "("+d.what+")")
		}
	}
	return text
}
