package signon

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"smartdrive/internal/domain/account"
)

// person is somebody whom the provider vouches for.
type person struct {
	identity account.Identity
	name     string // that a new user of theirs may have
	chosen   bool   // the provider lets people choose the name, and does not keep it unique
	groups   []string
}

func personOf(opt Options, claims map[string]any) person {
	subject, _ := claims["sub"].(string)
	p := person{identity: account.Identity{Issuer: opt.Issuer, Subject: subject}, groups: groupsAt(claims, opt.GroupsClaim)}
	for _, claim := range []string{"preferred_username", "email", "nickname", "name"} {
		s, _ := claims[claim].(string)
		if p.name = userName(s); p.name != "" {
			p.chosen = claim == "nickname" || claim == "name" || claim == "email" && claims["email_verified"] != true
			break
		}
	}
	p.name = cmp.Or(p.name, "user")
	return p
}

// mayCome reports whether the person may come in.
func (p person) mayCome(opt Options) bool { return len(opt.Users) == 0 || p.isIn(opt.Users) }

// isIn reports whether the person is in one of the groups.
func (p person) isIn(groups []string) bool {
	return slices.ContainsFunc(groups, func(g string) bool { return slices.Contains(p.groups, plainGroup(g)) })
}

// groupsAt returns the groups that a claim names: a list, one name, or an object whose members are
// the names, as of Zitadel. The claim may be a member of others: "realm_access.roles" of Keycloak.
func groupsAt(claims map[string]any, path string) []string {
	if path == "" {
		return nil
	}
	var found any = claims
	if whole, ok := claims[path]; ok { // a name with dots, such as an address
		found, path = whole, ""
	}
	for path != "" {
		name, rest, _ := strings.Cut(path, ".")
		members, _ := found.(map[string]any)
		found, path = members[name], rest
	}
	var groups []string
	switch v := found.(type) {
	case string:
		groups = append(groups, plainGroup(v))
	case []any:
		for _, g := range v {
			if s, ok := g.(string); ok {
				groups = append(groups, plainGroup(s))
			}
		}
	case map[string]any:
		for g := range v {
			groups = append(groups, plainGroup(g))
		}
	}
	slices.Sort(groups)
	return slices.Compact(slices.DeleteFunc(groups, func(g string) bool { return g == "" }))
}

// plainGroup is a group without the "/" that Keycloak begins its path with.
func plainGroup(s string) string { return strings.TrimPrefix(s, "/") }

// userName makes a name of a user of what a provider calls somebody; empty: it cannot.
func userName(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '/' || r == ':':
			return '-'
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, norm.NFKC.String(strings.ToValidUTF8(s, "")))
	const room = len("-1234567")
	if len(s) > account.MaxNameBytes-room {
		s = strings.ToValidUTF8(s[:account.MaxNameBytes-room], "")
	}
	s = strings.TrimSpace(s)
	if strings.Trim(s, ".") == "" || account.MixesScripts(s) { // "." and ".." lead elsewhere in addresses
		return ""
	}
	return s
}
