package tree

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Place is where a file shall go and what to do when something is there.
type Place struct {
	Parent   drive.NodeID
	Name     drive.Name
	Conflict drive.Conflict
	// Base is, for ConflictReplace, the current version of the file that the caller saw under the
	// name; zero: it was free.
	Base drive.VersionID
}

// CheckPlace returns the error that PutFile would return for the place now, without writing.
func (r Reader) CheckPlace(ctx context.Context, q sqldb.Querier, account drive.AccountID, p Place) error {
	if err := r.checkParent(ctx, q, account, p, Extent{}); err != nil {
		return err
	}
	_, _, err := r.settle(ctx, q, account, p)
	return err
}

// settle decides what the place means now: the file to replace, if ok, or the free name to take.
func (r Reader) settle(ctx context.Context, q sqldb.Querier, account drive.AccountID, p Place) (there Node, name drive.Name, err error) {
	there, _, err = r.Child(ctx, q, account, p.Parent, p.Name)
	if err != nil {
		return Node{}, "", err
	}
	return r.decide(ctx, q, account, p, there)
}

// decide is settle for who knows already what is there; zero: nothing.
func (r Reader) decide(ctx context.Context, q sqldb.Querier, account drive.AccountID, p Place, there Node) (_ Node, name drive.Name, err error) {
	ok := !there.ID.IsZero()
	switch {
	case p.Conflict == drive.ConflictReplace && ok && there.Type != TypeFile:
		return Node{}, "", nameTaken(p.Name)
	case p.Conflict == drive.ConflictReplace && there.Version != p.Base:
		return Node{}, "", versionChanged(there)
	case !ok || p.Conflict == drive.ConflictReplace:
		return there, p.Name, nil
	case p.Conflict == drive.ConflictRename:
		name, err = r.freeName(ctx, q, account, p, TypeFile)
		return Node{}, name, err
	}
	return Node{}, "", nameTaken(p.Name)
}

func nameTaken(name drive.Name) error { return drive.Fail(drive.NameTaken, "name", string(name)) }

// versionChanged tells the version that is current now; null: there is no file of that name any
// more.
func versionChanged(there Node) error {
	if there.Version.IsZero() {
		return drive.Fail(drive.VersionChanged, "current", nil)
	}
	return drive.Fail(drive.VersionChanged, "current", there.Version.String())
}

// checkParent answers ParentGone unless the parent is a live folder of the account, and BadName
// when what is placed there would be too deep or have too long a path.
func (r Reader) checkParent(ctx context.Context, q sqldb.Querier, account drive.AccountID, p Place, below Extent) error {
	n, err := r.Find(ctx, q, account, p.Parent)
	if drive.IsKind(err, drive.NotFound) || err == nil && !n.IsFolder() {
		return drive.Fail(drive.ParentGone)
	}
	if err != nil {
		return err
	}
	up, err := r.climb(ctx, q, p.Parent)
	if err != nil {
		return err
	}
	if !up.live() {
		return drive.Fail(drive.ParentGone)
	}
	return checkLimits(up.path(), p.Name, below)
}

// Extent is how far a subtree reaches below its top.
type Extent struct {
	Levels int // of the deepest node; 0: nothing is below
	Bytes  int // of the longest path, slashes included
}

func checkLimits(parent drive.Path, name drive.Name, below Extent) error {
	depth, size := len(parent)+1+below.Levels, len(name)+1+below.Bytes
	for _, n := range parent {
		size += len(n) + 1
	}
	switch {
	case depth > drive.MaxDepth:
		return drive.Fail(drive.BadName, "reason", "too-deep", "limit", drive.MaxDepth, "sent", depth)
	case size > drive.MaxPathBytes:
		return drive.Fail(drive.BadName, "reason", "path-too-long", "limit", drive.MaxPathBytes, "sent", size)
	}
	return nil
}

// freeName returns "name (2).ext" or the like, a name that is free in the folder. It gallops: after
// 10,000 copies of a name the next one takes some 20 look-ups. The number before the one it finds
// is taken.
func (r Reader) freeName(ctx context.Context, q sqldb.Querier, account drive.AccountID, p Place, typ Type) (drive.Name, error) {
	taken := func(k int) (bool, error) {
		_, ok, err := r.Child(ctx, q, account, p.Parent, numbered(p.Name, k, typ))
		return ok, err
	}
	low, high := 1, 2 // low is taken
	for {
		ok, err := taken(high)
		if err != nil {
			return "", err
		}
		if !ok {
			break
		}
		low, high = high, high*2
	}
	for high-low > 1 {
		mid := (low + high) / 2
		ok, err := taken(mid)
		if err != nil {
			return "", err
		}
		if ok {
			low = mid
		} else {
			high = mid
		}
	}
	return numbered(p.Name, high, typ), nil
}

// maxExtBytes is the longest ending that counts as an extension and stays behind the number.
const maxExtBytes = 16

// numbered puts a number behind the name of a folder, or before the extension of a file. A name
// that becomes too long loses the end of its stem.
func numbered(name drive.Name, k int, typ Type) drive.Name {
	stem, ext := string(name), ""
	if dot := strings.LastIndexByte(stem, '.'); typ == TypeFile && dot > 0 && len(stem)-dot <= maxExtBytes {
		stem, ext = stem[:dot], stem[dot:]
	}
	tail := fmt.Sprintf(" (%d)%s", k, ext)
	for len(stem)+len(tail) > drive.MaxNameBytes {
		_, last := utf8.DecodeLastRuneInString(stem)
		stem = stem[:len(stem)-last]
	}
	return drive.Name(stem + tail)
}
