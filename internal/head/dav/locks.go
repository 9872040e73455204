package dav

import (
	"context"
	"encoding/xml"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/lock"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/usecase/upload"
)

// Timeouts of locks without a refresh. A lost client blocks others for at most maxLockTimeout.
const (
	defaultLockTimeout = 10 * time.Minute
	maxLockTimeout     = time.Hour
)

// maxOwner bounds the owner element of a lock in bytes; a longer one is dropped.
const maxOwner = 1024

// readTimeout returns the first value of the Timeout header that is understood, at most
// maxLockTimeout (RFC 4918 §10.7). Without one it returns defaultLockTimeout.
func readTimeout(r *http.Request) time.Duration {
	for wish := range strings.SplitSeq(r.Header.Get("Timeout"), ",") {
		wish = strings.ToLower(strings.TrimSpace(wish))
		if wish == "infinite" {
			return maxLockTimeout
		}
		if text, ok := strings.CutPrefix(wish, "second-"); ok {
			n, err := strconv.ParseInt(text, 10, 64)
			switch {
			case err != nil && len(text) > 0 && strings.Trim(text, "0123456789") == "": // overflow
				return maxLockTimeout
			case err == nil && n > 0:
				return time.Duration(min(n, int64(maxLockTimeout/time.Second))) * time.Second
			}
		}
	}
	return defaultLockTimeout
}

// lock handles LOCK: a new lock, or without a body the refresh of submitted locks. It fails with
// drive.BadRequest for a depth of 1 or a malformed body, and with drive.Locked if another lock
// conflicts.
func (c *call) lock(ctx context.Context) error {
	depth, err := readDepth(c.r)
	if err != nil {
		return err
	}
	if depth == "1" { // RFC 4918 §9.10.3
		return drive.BadField("Depth", drive.NotAllowed, "allowed", []string{"0", "infinity"}, "sent", depth)
	}
	root, found, err := readBody(c.r)
	if err != nil {
		return err
	}
	if c.at.virtual() {
		return refuseLayout()
	}
	var want *lock.Lock
	if found {
		info, err := readLockInfo(root)
		if err != nil {
			return err
		}
		info.Deep, info.Timeout = depth == "infinity", readTimeout(c.r)
		want = &info
	}
	return retryStale(ctx, c, func(c *call, ctx context.Context) error { return lockAs(ctx, c, want) })
}

// lockAs creates the lock info at the request's URL and answers, or refreshes the submitted locks
// if info is nil. If nothing exists at the URL, it first creates an empty file. It fails with
// drive.Precondition for the If header, drive.Locked if another lock conflicts, and with the errors
// of createForLock or refreshLocks.
func lockAs(ctx context.Context, c *call, info *lock.Lock) error {
	e, err := c.lookup(ctx, c.at)
	if err != nil {
		return err
	}
	if err := c.checkIf(ctx, e); err != nil {
		return err
	}
	if info == nil {
		return c.refreshLocks(ctx, e)
	}
	want, made := *info, e == nil
	if made {
		if e, err = createForLock(ctx, c); err != nil {
			return err
		}
		want.CreatedFile = true
		c.expect.Seen = slices.DeleteFunc(c.expect.Seen, func(s tree.SeenNode) bool { // the name was free, as the transaction has verified
			return s.Node.IsZero() && s.Parent == *e.ParentID && s.Name.Fold() == drive.Name(e.Name).Fold()
		})
	}
	want.Node = e.Node
	if !e.IsFolder() {
		want.Deep = false
	}
	if err := expectAt(ctx, c, c.at, e, tree.SeenNode{}); err != nil {
		return err
	}
	l, err := c.marks.Lock(ctx, c.who, want, c.expect)
	if drive.IsKind(err, drive.Locked) {
		return condition{err, 0, "no-conflicting-lock", "<D:href>" + e.href + "</D:href>"}
	}
	if err != nil {
		return err
	}
	c.w.Header().Set("Lock-Token", "<"+tokenOf(l)+">")
	status := http.StatusOK
	if made {
		status = http.StatusCreated
	}
	return c.respondLocks(ctx, *e, []lock.Lock{l}, status)
}

// createForLock creates an empty file at the request's URL, for a lock on a missing name (RFC 4918
// §7.3), and returns it. It fails with drive.ParentGone without a folder, drive.Locked if the
// folder is locked, or drive.NameTaken if the name was created meanwhile.
func createForLock(ctx context.Context, c *call) (*Entry, error) {
	if err := c.opt.Litter().checkName(c.at.last()); err != nil {
		return nil, err
	}
	parent, err := c.findParent(ctx, c.at)
	if err == nil {
		err = c.checkUnlocked(ctx, parent, false)
	}
	var at drive.Address
	if err == nil {
		at, err = c.address(ctx, c.at)
	}
	if err != nil {
		return nil, err
	}
	put := upload.PutFile{Place: at.Place, Path: at.Path, Conflict: drive.ConflictFail, Expect: c.expect}
	if _, err := c.opt.Uploads.PutWhole(ctx, c.who, put, strings.NewReader("")); err != nil {
		return nil, err
	}
	e, err := c.find(ctx, c.at)
	return &e, err
}

// refreshLocks handles a LOCK without a body: it restarts the timeout of the submitted locks and
// answers with them. A nil entry fails with drive.NotFound. It fails with drive.Precondition if the
// request submits no lock that applies to the entry.
func (c *call) refreshLocks(ctx context.Context, e *Entry) error {
	if e == nil {
		return drive.Fail(drive.NotFound)
	}
	all, err := c.marks.LocksAt(ctx, c.who, e.Node, false)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(l lock.Lock) bool { return !submits(c, l) })
	if len(all) == 0 {
		return condition{drive.Fail(drive.Precondition), 0, "lock-token-matches-request-uri", ""}
	}
	lasts := readTimeout(c.r)
	for i := range all {
		if err := c.marks.Relock(ctx, c.who, all[i], lasts); err != nil {
			return err
		}
		all[i].Timeout = lasts
	}
	return c.respondLocks(ctx, *e, all, http.StatusOK)
}

// respondLocks answers a LOCK with the locks that now apply and the given status. It zeroes Expires
// in all, so that the full timeout is shown. It fails, before anything is sent, if a lock's root
// cannot be looked up.
func (c *call) respondLocks(ctx context.Context, e Entry, all []lock.Lock, status int) error {
	for i := range all {
		all[i].Expires = 0 // just refreshed: the full timeout is left
	}
	inner, err := c.discovery(ctx, e, all)
	if err != nil {
		return err
	}
	body := c.view.spelling().dav(xml.Header + `<D:prop xmlns:D="DAV:"><D:lockdiscovery>` + inner + "</D:lockdiscovery></D:prop>\n")
	h := c.w.Header()
	h.Set("Content-Type", xmlType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	c.w.WriteHeader(status)
	_, _ = io.WriteString(c.w, body) // fails only if the client is disconnected
	return nil
}

// readLockInfo parses the body of a LOCK (RFC 4918 §14.11): the scope and the owner. The other
// fields are zero. An owner longer than maxOwner is dropped. It fails with drive.BadRequest.
func readLockInfo(root element) (l lock.Lock, err error) {
	scope, hasScope := root.child("lockscope")
	kind, hasKind := root.child("locktype")
	_, exclusive := scope.child("exclusive")
	_, shared := scope.child("shared")
	_, write := kind.child("write")
	if root.Name != dav("lockinfo") || !hasScope || !hasKind || !write || exclusive == shared {
		return l, drive.BadField("body", drive.Malformed, "expected", "lockinfo with a scope and the type write")
	}
	l.Exclusive = exclusive
	if owner, ok := root.child("owner"); ok {
		if l.Owner = strings.TrimSpace(owner.Inner); len(l.Owner) > maxOwner {
			l.Owner = ""
		}
	}
	return l, nil
}

// unlock handles UNLOCK and replies 204. It fails with drive.BadRequest without Lock-Token and with
// status 409 (lock-token-matches-request-uri) if no lock of the node has the token.
func (c *call) unlock(ctx context.Context) error {
	token := strings.Trim(strings.TrimSpace(c.r.Header.Get("Lock-Token")), "<>")
	if token == "" {
		return drive.BadField("Lock-Token", drive.Required)
	}
	e, err := c.find(ctx, c.at)
	if err != nil {
		return err
	}
	var all []lock.Lock
	if !e.Virtual {
		if all, err = c.marks.LocksAt(ctx, c.who, e.Node, false); err != nil {
			return err
		}
	}
	i := slices.IndexFunc(all, func(l lock.Lock) bool { return tokenOf(l) == token })
	if i < 0 { // RFC 4918 §9.11.1
		return condition{drive.Fail(drive.WrongState, "state", "unlocked"), http.StatusConflict, "lock-token-matches-request-uri", ""}
	}
	if err := c.marks.Unlock(ctx, c.who, all[i]); err != nil {
		return err
	}
	return c.respondChanged(false)
}

// discovery renders the value of lockdiscovery (RFC 4918 §15.8); "" for no locks. It fails if a
// lock's root cannot be looked up.
func (c *call) discovery(ctx context.Context, e Entry, all []lock.Lock) (string, error) {
	var b strings.Builder
	for _, l := range all {
		root, err := lockRoot(ctx, c, e, l)
		if err != nil {
			return "", err
		}
		scope, depth, left := "shared", "0", l.Timeout
		if l.Exclusive {
			scope = "exclusive"
		}
		if l.Deep {
			depth = "infinity"
		}
		if l.Expires != 0 {
			left = max(l.Expires.Std().Sub(c.now()), time.Second)
		}
		b.WriteString("<D:activelock><D:locktype><D:write/></D:locktype><D:lockscope><D:" + scope + "/></D:lockscope><D:depth>" + depth +
			"</D:depth>")
		if owner := wellFormed(l.Owner); owner != "" {
			b.WriteString("<D:owner>" + owner + "</D:owner>")
		}
		b.WriteString("<D:timeout>Second-" + strconv.FormatInt(int64(left/time.Second), 10) + "</D:timeout><D:locktoken><D:href>" + tokenOf(l) +
			"</D:href></D:locktoken><D:lockroot><D:href>" + root + "</D:href></D:lockroot></D:activelock>")
	}
	return b.String(), nil
}

// lockRoot returns the URL path of the node that a lock is on. That is the entry, or a folder above
// it, which applies to all entries of a response; its path is cached in c.roots.
func lockRoot(ctx context.Context, c *call, e Entry, l lock.Lock) (string, error) {
	if l.Node == e.Node {
		return e.href, nil
	}
	if root, known := c.roots[l.Node]; known {
		return root, nil
	}
	root, err := c.lockRootAbove(ctx, l)
	if err != nil {
		return "", err
	}
	if c.roots == nil {
		c.roots = map[drive.NodeID]string{}
	}
	c.roots[l.Node] = root
	return root, nil
}

// lockRootAbove returns the href of the locked node, searched at the request's location and above.
// If the caller does not see that node, it returns the href of the view's root.
func (c *call) lockRootAbove(ctx context.Context, l lock.Lock) (string, error) {
	for p := c.at; ; p = p.parent() {
		up, err := c.lookup(ctx, p)
		if err != nil {
			return "", err
		}
		if up != nil && up.Node == l.Node {
			return up.href, nil
		}
		if p.isRoot() { // the node is above everything that the caller sees
			return c.href(nil, true), nil
		}
	}
}
