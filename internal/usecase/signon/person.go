package signon

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"example.org/smartdrive/internal/domain/account"
)

// person is an authenticated person as the claims describe them.
type person struct {
	identity account.Identity
	name     string // proposed user name
	chosen   bool   // the person may have chosen the name, so it need not be unique at the provider
	groups   []string
}

// personOf reads identity, groups and a valid user name from the claims. Missing claims are empty;
// the name is then "user".
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

// mayCome reports whether the groups of the person allow a sign-in. Without opt.Users each person
// may.
func (p person) mayCome(opt Options) bool { return len(opt.Users) == 0 || p.isIn(opt.Users) }

// isIn reports whether the person is in at least one of the groups.
func (p person) isIn(groups []string) bool {
	return slices.ContainsFunc(groups, func(g string) bool { return slices.Contains(p.groups, plainGroup(g)) })
}

// groupsAt returns the groups in the claim at path, sorted. The claim is a list, a single name, or
// an object with the names as keys, as in Zitadel. Dots in path lead into nested objects, as in
// Keycloak's "realm_access.roles".
func groupsAt(claims map[string]any, path string) []string {
	if path == "" {
		return nil
	}
	var found any = claims
	if whole, ok := claims[path]; ok { // a claim whose name contains dots, such as a URL
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

// plainGroup removes the leading "/" of Keycloak's group paths.
func plainGroup(s string) string { return strings.TrimPrefix(s, "/") }

// userName converts a name from the provider into a valid user name; "" if that is impossible.
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
	if strings.Trim(s, ".") == "" || account.MixesScripts(s) { // "." and ".." have a meaning in paths
		return ""
	}
	return s
}
