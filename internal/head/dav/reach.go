package dav

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/tree"
)

// Address is where the use cases find what a URL of a view means: for heads whose requests name
// files by URLs elsewhere than in their own address.
func (h *Head) Address(ctx context.Context, r *http.Request, v View, u *url.URL) (drive.Address, error) {
	c := &call{Head: h, view: v, r: r, who: v.Who}
	p, err := c.parse(u)
	if err != nil {
		return drive.Address{}, err
	}
	if p.virtual() {
		return drive.Address{}, noPlace()
	}
	return c.address(ctx, p)
}

// IsLayout reports whether an address was refused for being a folder of the layout.
func IsLayout(err error) bool {
	refused, ok := errors.AsType[*drive.Error](err)
	return ok && refused.Kind == drive.Forbidden && refused.Args["reason"] == "layout"
}

// Shown is where addresses of the use cases are in a view of the layout Home: paths that begin with
// a slash. What is not in it has none.
func (h *Head) Shown(ctx context.Context, v View, addresses []string) (map[string]string, error) {
	c := &call{Head: h, view: v, who: v.Who}
	var names map[string]drive.Name // of what is shared with the caller, where it is needed
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

// Guest is where something that is shared with the caller by name is in a view of the layout Home.
func Guest(name drive.Name) string { return "/" + string(rooms[Home][shared]) + "/" + string(name) }

// Place is what a caller sees in a view beside their own drive: a space, or what is shared with
// them by name.
type Place struct {
	Address string // drive.Address.Place
	Name    drive.Name
	Node    drive.NodeID // of what is shared by name; zero: it is a space
	Root    drive.NodeID // of a space
	Account drive.AccountID
}

// Places are all that a caller sees in a view beside their own drive.
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
	guests, err := c.withMe(ctx)
	if err != nil {
		return nil, err
	}
	for _, g := range guests {
		all = append(all, Place{Address: g.Node.String(), Name: g.As, Node: g.Node, Account: g.Account})
	}
	return all, nil
}

// Permit is what allows a file to be put. It holds as long as Expect does, which the use case
// compares in the transaction that makes the file.
type Permit struct {
	Who    drive.Who // the caller, with the lock tokens that the request submits
	Expect tree.Expect
}

// MayPut refuses a file that is to be at a URL of a view where PUT would: for names that are not
// taken, conditions of the request that do not hold, and locks whose tokens it does not bring.
func (h *Head) MayPut(ctx context.Context, r *http.Request, v View, u *url.URL) (Permit, error) {
	c := &call{Head: h, view: v, r: r, who: v.Who}
	var err error
	if c.at, err = c.parse(u); err != nil {
		return Permit{}, err
	}
	if err := h.opt.Litter().takes(c.at.last()); err != nil {
		return Permit{}, err
	}
	if err := readTokens(c); err != nil {
		return Permit{}, err
	}
	c.who.Tokens = submitted(c)
	there, err := target(ctx, c)
	if err != nil {
		return Permit{}, err
	}
	if err := c.conditions(ctx, there); err != nil {
		return Permit{}, err
	}
	err = mayPut(ctx, c, c.at, there)
	return Permit{c.who, c.expect}, err
}
