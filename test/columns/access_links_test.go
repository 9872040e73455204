package columns

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/testkit/depth"
)

// given is a link that a user has created.
type given struct {
	what  string
	path  string // that a visitor asks for
	by    drive.UserID
	node  drive.NodeID
	opens func(drive.UserID, drive.NodeID) bool
}

const mostLinks = 60 // of a world

func (s *society) share(p citizen, node drive.NodeID) {
	s.link(p, given{what: "give out a link", path: "/api/v1/public/shares/", node: node, opens: s.MayShow}, "/shares", map[string]any{"node": node})
}

func (s *society) collect(p citizen, node drive.NodeID) {
	s.link(p, given{what: "give out a collect link", path: "/api/v1/public/collects/", node: node, opens: s.MayLink}, "/collects", map[string]any{"folder": node, "title": "t"})
}

// link creates a link if the model allows it. Nobody may create links to roots.
func (s *society) link(p citizen, l given, path string, in any) {
	if len(s.links) >= mostLinks || s.Parent[l.node].IsZero() {
		return
	}
	may, has := l.opens(p.user, l.node), s.Rights(p.user, l.node)
	status, answer := s.send(s.at, p.token, "POST", "/api/v1"+path, in)
	switch {
	case s.err != nil || status == http.StatusTooManyRequests:
		return
	case status == http.StatusCreated:
		var made struct{ Token string }
		s.note(json.Unmarshal(answer, &made))
		l.by, l.path = p.user, l.path+made.Token
		s.links = append(s.links, l)
	}
	fine := may == (status == http.StatusCreated) && (may || status == http.StatusForbidden || !has.Has(access.See) && status == http.StatusNotFound)
	if !fine && !s.AnyExpires(s.Now, time.Now()) {
		s.note(fmt.Errorf("%s with %04b (may: %v) is answered with %d: %s", l.what, has, may, status, answer))
	}
}

// askLink opens a link as a visitor. The link works as long as its creator may create it.
func (s *society) askLink(l given) {
	if l.path == "" {
		return // there is none yet
	}
	at := s.rand.IntN(len(s.sites))
	s.agree(at, func() error {
		may := l.opens(l.by, l.node)
		status, answer := s.send(at, "", "GET", l.path, nil)
		if status == 0 || may && status == http.StatusOK || !may && status == http.StatusGone {
			return nil
		}
		return fmt.Errorf("a link (%s) whose giver may give it out (%v) is answered with %d: %s", l.what, may, status, answer)
	})
}

// behind returns how long the instance at may act on a role that has ended. Instances other than
// the one that ended the role may have cached it that long ago.
func (s *society) behind(at int) time.Duration {
	if at == s.at {
		return 0
	}
	return heldFor
}

// outlive waits for the expiry of all roles that expire, and checks each. It runs only at full
// depth, because the shortest role lasts a minute. No other change happens meanwhile, so every
// difference is due to the expiry.
func (s *society) outlive() {
	if depth.Pick(0, 1, 1) == 0 {
		return
	}
	pace := time.NewTicker(20 * time.Millisecond)
	defer pace.Stop()
	ends := func(g access.Grant) bool {
		return g.Expires != 0 && time.Since(g.Expires.Std()) < heldFor
	}
	for s.err == nil && slices.ContainsFunc(s.Grants, ends) {
		node := pick(s.rand, s.Nodes)
		if s.rand.IntN(2) == 0 {
			node = pick(s.rand, s.Grants).Node
		}
		s.ask(pick(s.rand, s.people), node)
		<-pace.C
	}
}
