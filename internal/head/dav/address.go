package dav

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
)

// Address returns the address, as the use cases name files, that the URL u has in the view v. It
// serves heads whose requests name files by other URLs than their own. The file need not exist. It
// fails with drive.NotFound for a URL outside of the view, with drive.BadName for an invalid name,
// and with an error that IsLayout recognizes for a folder that exists only in the layout.
func (h *Head) Address(ctx context.Context, r *http.Request, v View, u *url.URL) (drive.Address, error) {
	c := &call{Head: h, view: v, r: r, who: v.Who}
	p, err := c.parse(u)
	if err != nil {
		return drive.Address{}, err
	}
	if p.virtual() {
		return drive.Address{}, refuseLayout()
	}
	return c.address(ctx, p)
}

// IsLayout reports whether Address failed because the URL names a folder that exists only in the
// view's layout, such as the list of spaces. Such a folder cannot be changed.
func IsLayout(err error) bool {
	refused, ok := errors.AsType[*drive.Error](err)
	return ok && refused.Kind == drive.Forbidden && refused.Args["reason"] == "layout"
}

// ViewPaths returns the unescaped paths, with a leading slash and without the view's prefix, that
// addresses have in a view. The keys are the addresses. The view must have the layout Merged. It
// omits addresses that the view does not show. It fails for a malformed address or with the error
// of a query.
func (h *Head) ViewPaths(ctx context.Context, v View, addresses []string) (map[string]string, error) {
	c := &call{Head: h, view: v, who: v.Who}
	var names map[string]drive.Name // names of shares; read if needed
	shown := make(map[string]string, len(addresses))
	for _, address := range addresses {
		at, err := drive.ParseAddress(address)
		if err != nil {
			return nil, err
		}
		if _, byName := drive.ParseID[drive.NodeID](at.Place); byName == nil && names == nil {
			if names, err = c.guestNames(ctx); err != nil {
				return nil, err
			}
		}
		if segments, there := c.segmentsOf(at, names); there {
			shown[address] = "/" + strings.Join(segments, "/")
		}
	}
	return shown, nil
}

// SharePath returns the path, without the prefix, that a view of the layout Merged gives to a
// shared node. name is the name under which the caller sees it.
func SharePath(name drive.Name) string {
	return "/" + string(sectionNames[Merged][shared]) + "/" + string(name)
}

// Place is a space or a share in a view, besides the caller's own drive.
type Place struct {
	Address string // value of drive.Address.Place
	Name    drive.Name
	Node    drive.NodeID // shared node; zero for a space
	Root    drive.NodeID // root of a space; zero for a share
	Account drive.AccountID
}

// Places returns the spaces and shared nodes that the caller sees, spaces first. It fails with the
// error of a query.
func (h *Head) Places(ctx context.Context, who drive.Who) ([]Place, error) {
	c := &call{Head: h, who: who}
	var all []Place
	spaces, err := c.mySpaces(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range spaces {
		all = append(all, Place{Address: s.Name, Name: drive.Name(s.Name), Root: s.Root, Account: s.ID})
	}
	guests, err := c.mounted(ctx)
	if err != nil {
		return nil, err
	}
	for _, g := range guests {
		all = append(all, Place{Address: g.Node.String(), Name: g.As, Node: g.Node, Account: g.Account})
	}
	return all, nil
}

// PutPermit is the result of CheckPut: what the caller needs to store the file. Pass both fields to
// the use case that creates it. The use case compares Expect in its transaction and fails as stale
// if the state has changed; then call CheckPut again.
type PutPermit struct {
	Who    drive.Who // the caller with the request's lock tokens
	Expect tree.Expect
}

// CheckPut checks whether a PUT of a file at the URL u of the view v would be allowed: its name,
// the conditions in the headers of r, and locks. It stores nothing. It fails with the errors of
// PUT, such as drive.Precondition or drive.Locked.
func (h *Head) CheckPut(ctx context.Context, r *http.Request, v View, u *url.URL) (PutPermit, error) {
	c := &call{Head: h, view: v, r: r, who: v.Who}
	var err error
	if c.at, err = c.parse(u); err != nil {
		return PutPermit{}, err
	}
	if err := h.opt.Litter().checkName(c.at.last()); err != nil {
		return PutPermit{}, err
	}
	if err := readTokens(c); err != nil {
		return PutPermit{}, err
	}
	c.who.Tokens = submitted(c)
	there, err := replacedFile(ctx, c)
	if err != nil {
		return PutPermit{}, err
	}
	if err := c.conditions(ctx, there); err != nil {
		return PutPermit{}, err
	}
	err = checkWritable(ctx, c, c.at, there)
	return PutPermit{c.who, c.expect}, err
}
