package main

import (
	"maps"
	"path"
	"slices"
	"strings"

	"example.org/smartdrive/test/history"
)

// history compares the database with the logs: every acknowledged file and upload exists, and no
// others.
func (c *checker) history(records []history.Record) error {
	accounts, err := c.accountsByUser()
	if err != nil {
		return err
	}
	stories := c.stories(records)
	byAccount := map[string][]*story{}
	for _, s := range stories {
		if account := accounts[s.user]; account == "" {
			c.found("log", "user %s is not there", s.user)
		} else {
			byAccount[account] = append(byAccount[account], s)
		}
	}
	for account, told := range byAccount {
		here, err := c.filesOf(account)
		if err != nil {
			return err
		}
		for _, s := range told {
			c.compare(s, here)
		}
		c.uninvited(account, told, here)
	}
	c.uploadsOf(records, accounts)
	return nil
}

// accountsByUser returns the account id of each user by name.
func (c *checker) accountsByUser() (map[string]string, error) {
	out := map[string]string{}
	return out, c.db.each(func(scan func(...any) error) error {
		var name, account string
		err := scan(&name, &account)
		out[name] = account
		return err
	}, `SELECT name, account_id FROM users WHERE state <> 'deleted'`)
}

// nodeRow is a node and the digests of its versions.
type nodeRow struct {
	id, parent, name, kind string
	trashed, owned         bool
	versions               []string // digests, oldest first
}

// tree contains the nodes of an account by id.
type tree map[string]*nodeRow

// pathOf returns the path of a node, and whether the node or a folder above it is in the trash, or
// owned by an operation.
func (t tree) pathOf(n *nodeRow) (p string, trashed, owned bool) {
	for p = ""; n != nil && n.parent != ""; n = t[n.parent] {
		p, trashed, owned = path.Join("/", n.name, p), trashed || n.trashed, owned || n.owned
	}
	return p, trashed, owned
}

// filesOf returns all nodes of an account.
func (c *checker) filesOf(account string) (tree, error) {
	t := tree{}
	err := c.db.each(func(scan func(...any) error) error {
		n := &nodeRow{}
		err := scan(&n.id, &n.parent, &n.name, &n.kind, &n.trashed, &n.owned)
		t[n.id] = n
		return err
	}, `SELECT id, COALESCE(parent_id, ''), name, type, trashed_at > 0, operation_id IS NOT NULL FROM nodes WHERE account_id = ?`, account)
	if err != nil {
		return nil, err
	}
	return t, c.db.each(func(scan func(...any) error) error {
		var node, digest string
		err := scan(&node, &digest)
		if n := t[node]; n != nil && err == nil {
			n.versions = append(n.versions, digest)
		}
		return err
	}, `SELECT v.node_id, b.digest FROM versions v JOIN blobs b ON b.id = v.blob_id WHERE v.account_id = ? ORDER BY v.id`, account)
}

// compare reports a client unless the database matches one of the client's possible worlds.
func (c *checker) compare(s *story, here tree) {
	if s.broken {
		return
	}
	live, trash := map[string]*nodeRow{}, map[string]*nodeRow{}
	for _, n := range here {
		p, trashed, owned := here.pathOf(n)
		switch {
		case n.kind != "file" || owned || !strings.HasPrefix(p, "/"+s.client+"/"):
		case trashed:
			trash[n.id] = n
		default:
			live[p] = n
		}
	}
	var why []string
	for _, w := range s.worlds {
		diff := differences(w.live, live)
		diff = append(diff, differences(w.trash, trash)...)
		if len(diff) == 0 {
			return
		}
		why = append(why, strings.Join(diff, ", "))
	}
	c.found("log", "the files of client %s (%s) are not what it was told: %s", s.client, s.user, strings.Join(why, "; or: "))
}

// differences describes how the files here, by path or by node, differ from the expected ones.
func differences(told map[string]file, here map[string]*nodeRow) (diff []string) {
	for key, f := range told {
		n := here[key]
		switch {
		case n == nil:
			diff = append(diff, key+" is missing")
		case f.node != "" && f.node != n.id:
			diff = append(diff, key+" is node "+n.id+", not "+f.node)
		case !slices.EqualFunc(f.contents, n.versions, func(content history.Content, digest string) bool { return digestOf(content) == digest }):
			diff = append(diff, key+" has other versions")
		}
	}
	for key := range here {
		if _, ok := told[key]; !ok {
			diff = append(diff, key+" should not be there")
		}
	}
	slices.Sort(diff)
	return diff
}

// uninvited reports nodes that no client requested.
func (c *checker) uninvited(account string, told []*story, here tree) {
	folders := map[string]bool{"/": true, "": true}
	for _, s := range told {
		for p := range maps.Keys(s.asked) {
			for dir := path.Dir(p); dir != "/"; dir = path.Dir(dir) {
				folders[dir] = true
			}
		}
	}
	for _, n := range here {
		p, _, _ := here.pathOf(n)
		mine := func(s *story) bool { return strings.HasPrefix(p, "/"+s.client+"/") }
		if n.kind == "folder" && !folders[p] || n.kind == "file" && !slices.ContainsFunc(told, mine) {
			c.found("log", "account %s has a %s %s that nobody has asked for", account, n.kind, p)
		}
	}
}
