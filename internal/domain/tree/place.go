package tree

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Place is the target of a file and the policy for a name that is taken.
type Place struct {
	Parent   drive.NodeID
	Name     drive.Name
	Conflict drive.Conflict
	// Base is the current version of the file that the caller saw under the name, for
	// ConflictReplace; zero: the name was free.
	Base drive.VersionID
}

// CheckPlace returns the error that PutFile would return for the place now. It writes nothing.
func (r Reader) CheckPlace(ctx context.Context, q sqldb.Querier, account drive.AccountID, p Place) error {
	if err := r.checkParent(ctx, q, account, p, Extent{}); err != nil {
		return err
	}
	_, _, err := r.resolvePlace(ctx, q, account, p)
	return err
}

// resolvePlace returns the existing file to replace, zero if none, and the name to use, by the
// conflict policy of p. It writes nothing. It fails with NameTaken if the policy allows neither
// replacing nor renaming, or a folder has the name, and with VersionChanged if the file to replace
// is not of version p.Base.
func (r Reader) resolvePlace(ctx context.Context, q sqldb.Querier, account drive.AccountID, p Place) (there Node, name drive.Name, err error) {
	there, _, err = r.Child(ctx, q, account, p.Parent, p.Name)
	if err != nil {
		return Node{}, "", err
	}
	return r.resolveConflict(ctx, q, account, p, there)
}

// resolveConflict returns the existing file to replace, zero if none, and the name to use; there is
// the node that has the name, zero if the name is free. It fails with NameTaken if the policy
// allows neither replacing nor renaming, or a folder has the name, and with VersionChanged if the
// file to replace is not of version p.Base.
func (r Reader) resolveConflict(ctx context.Context, q sqldb.Querier, account drive.AccountID, p Place, there Node) (_ Node, name drive.Name, err error) {
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

// nameTaken returns the error NameTaken {name}.
func nameTaken(name drive.Name) error { return drive.Fail(drive.NameTaken, "name", string(name)) }

// versionChanged returns the error VersionChanged {current}; current is null if no file has the
// name any more.
func versionChanged(there Node) error {
	if there.Version.IsZero() {
		return drive.Fail(drive.VersionChanged, "current", nil)
	}
	return drive.Fail(drive.VersionChanged, "current", there.Version.String())
}

// checkParent fails with ParentGone unless the parent is a live folder of the account, and with
// BadName if the placed node, or what is below it, would be too deep or have too long a path.
func (r Reader) checkParent(ctx context.Context, q sqldb.Querier, account drive.AccountID, p Place, below Extent) error {
	n, err := r.Find(ctx, q, account, p.Parent)
	if drive.IsKind(err, drive.NotFound) || err == nil && !n.IsFolder() {
		return drive.Fail(drive.ParentGone)
	}
	if err != nil {
		return err
	}
	up, err := r.readChain(ctx, q, p.Parent)
	if err != nil {
		return err
	}
	if !up.live() {
		return drive.Fail(drive.ParentGone)
	}
	return checkLimits(up.path(), p.Name, below)
}

// Extent is the height of a subtree below its top.
type Extent struct {
	Levels int // depth of the deepest node; 0: no descendants
	Bytes  int // length of the longest relative path, slashes included
}

// checkLimits fails with BadName if a node would exceed drive.MaxDepth or drive.MaxPathBytes.
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

// freeName returns a free name like "name (2).ext". It searches exponentially and then by
// bisection: after 10,000 copies of a name it takes some 20 lookups. The name with the preceding
// number is taken.
func (r Reader) freeName(ctx context.Context, q sqldb.Querier, account drive.AccountID, p Place, typ Type) (drive.Name, error) {
	taken := func(k int) (bool, error) {
		_, ok, err := r.Child(ctx, q, account, p.Parent, numbered(p.Name, k, typ))
		return ok, err
	}
	low, high := 1, 2 // invariant: low is taken
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

// maxExtBytes is the longest suffix in bytes, with its dot, that counts as a file name's extension.
// A number that makes a name free is inserted before the extension, or appended if there is none.
const maxExtBytes = 16

// numbered appends " (k)" to the name of a folder, or inserts it before the extension of a file. A
// name that gets too long loses the end of its stem.
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
