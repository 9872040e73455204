package nextcloud

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/usecase/space"
)

// sharees searches users and groups to share with. There is one page with the first ten by name.
// Searches of less than two characters find nothing. It fails with the error of the search.
func (c sharing) sharees(ctx context.Context) (any, error) {
	q := c.r.URL.Query()
	search := strings.TrimSpace(q.Get("search"))
	page, err := strconv.Atoi(q.Get("page"))
	if (err == nil && page > 1) || len([]rune(search)) < 2 {
		return foundSharees(nil, search), nil
	}
	found, err := c.Spaces.Search(ctx, c.who, search)
	if err != nil {
		return nil, err
	}
	if kinds := slices.Concat(q["shareType"], q["shareType[]"]); len(kinds) > 0 {
		found = slices.DeleteFunc(found, func(f space.Found) bool { return !slices.Contains(kinds, strconv.Itoa(kindOf(f))) })
	}
	if per, err := strconv.Atoi(q.Get("perPage")); err == nil && per > 0 {
		found = found[:min(len(found), per)]
	}
	return foundSharees(found, search), nil
}

// kindOf returns the protocol's share type for a found principal: toGroup or toUser.
func kindOf(f space.Found) int {
	if f.Kind == access.Group {
		return toGroup
	}
	return toUser
}

// foundSharees returns the lists of exact and other matches. Clients also expect lists of kinds
// that do not exist here.
func foundSharees(found []space.Found, search string) object {
	var exact, others [2]list
	for _, f := range found {
		o := object{
			{"label", f.Name}, {"value", object{{"shareType", kindOf(f)}, {"shareWith", f.Name}}}, {"shareWithDisplayNameUnique", f.Name},
		}
		if to := kindOf(f); drive.Name(f.Name).Fold() == drive.Name(search).Fold() {
			exact[to] = append(exact[to], o)
		} else {
			others[to] = append(others[to], o)
		}
	}
	lists := func(of [2]list) object {
		o := object{{"users", of[toUser]}, {"groups", of[toGroup]}}
		for _, none := range []string{"remotes", "remote_groups", "emails", "circles", "rooms", "lookup"} {
			o = append(o, member{none, list{}})
		}
		return o
	}
	return append(object{{"exact", lists(exact)}}, append(lists(others), member{"lookupEnabled", false})...)
}
