package rest

import (
	"net/url"
	"slices"
	"strconv"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
)

// param is a query parameter of a route.
type param struct {
	name     string
	doc      string
	syntax   syntax
	min, max int64    // range of an integer
	def      int64    // default of an integer
	choices  []string // values of a choice, the default first
	required bool
}

// syntax is the format of a parameter's value.
type syntax uint8

const (
	text syntax = iota
	integer
	boolean
	choice
)

var (
	// limitParam declares the query parameter "limit".
	limitParam = param{name: "limit", syntax: integer, min: 1, max: tree.MaxLimit, def: 200, doc: "items a page"}
	// spaceParam declares the query parameter "space".
	spaceParam = param{name: "space", doc: "name or id of a space; the caller's own drive if absent"}
	// cursor declares the query parameter "cursor".
	cursor = param{name: "cursor", doc: "`next_cursor` of the page before"}
)

// check returns drive.BadRequest if value is not valid for the parameter's syntax and bounds, else
// nil. An empty text is invalid.
func (p *param) check(value string) error {
	switch p.syntax {
	case integer:
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return drive.Wrap(err, drive.BadRequest, "field", p.name, "reason", string(drive.Malformed), "expected", "an integer")
		}
		if n < p.min || n > p.max {
			return drive.BadField(p.name, drive.OutOfRange, "min", p.min, "max", p.max, "sent", n)
		}
	case boolean:
		if _, ok := parseBool(value); !ok {
			return drive.BadField(p.name, drive.NotAllowed, "allowed", []string{"true", "false", "1", "0"}, "sent", clip(value))
		}
	case choice:
		if !slices.Contains(p.choices, value) {
			return drive.BadField(p.name, drive.NotAllowed, "allowed", p.choices, "sent", clip(value))
		}
	case text:
		if value == "" {
			return drive.BadField(p.name, drive.Required)
		}
	}
	return nil
}

// parseBool parses true, false, 1 or 0; ok is false for another text.
func parseBool(s string) (value, ok bool) {
	switch s {
	case "true", "1":
		return true, true
	case "false", "0":
		return false, true
	}
	return false, false
}

// parseQuery sets c.query. It fails with drive.BadRequest if the query does not match the route's
// parameters.
func (c *call) parseQuery() (err error) {
	c.query, err = parseQuery(c.r.URL.RawQuery, c.route.query)
	return err
}

// parseQuery parses a query and checks it against params. It fails with drive.BadRequest.
func parseQuery(raw string, params []param) (url.Values, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, drive.Wrap(err, drive.BadRequest, "field", "query", "reason", string(drive.Malformed), "expected", "name=value&...")
	}
	for name, given := range values {
		i := slices.IndexFunc(params, func(p param) bool { return p.name == name })
		if i < 0 {
			return nil, drive.BadField(clip(name), drive.Unknown, "allowed", names(params))
		}
		if len(given) > 1 {
			return nil, drive.BadField(name, drive.Malformed, "expected", "one value")
		}
		if err := params[i].check(given[0]); err != nil {
			return nil, err
		}
	}
	for _, p := range params {
		if p.required && !values.Has(p.name) {
			return nil, drive.BadField(p.name, drive.Required)
		}
	}
	return values, nil
}

// names returns the names of the parameters in their order.
func names(params []param) []string {
	all := make([]string, len(params))
	for i, p := range params {
		all[i] = p.name
	}
	return all
}

// number returns the value of an integer parameter; its default if it is absent. parseQuery must
// have checked it.
func (c *call) number(p param) int {
	if n, err := strconv.ParseInt(c.query.Get(p.name), 10, 64); err == nil {
		return int(n)
	}
	return int(p.def)
}

// limit returns the page size that the request asks for, or its default.
func (c *call) limit() int { return c.number(limitParam) }

// flag returns the value of a boolean parameter; false if it is absent. parseQuery must have
// checked it.
func (c *call) flag(name string) bool {
	value, _ := parseBool(c.query.Get(name))
	return value
}

// time returns a parameter as a time, or zero if it is absent. It fails with drive.BadRequest.
func (c *call) time(name string) (t drive.Time, err error) {
	text := c.query.Get(name)
	if text == "" {
		return 0, nil
	}
	if err := t.UnmarshalText([]byte(text)); err != nil || t == 0 { // 0 would count as absent
		return 0, drive.Wrap(err, drive.BadRequest, "field", name, "reason", string(drive.Malformed), "expected", "an RFC 3339 time")
	}
	return t, nil
}

// anyChoice is the value of a choice parameter that selects everything.
const anyChoice = "any"

// choiceValue returns a choice parameter, or "" for anyChoice.
func (c *call) choiceValue(p param) string {
	if v := c.query.Get(p.name); v != anyChoice {
		return v
	}
	return ""
}
