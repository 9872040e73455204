package memory

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"example.org/smartdrive/internal/testkit/depth"
	"example.org/smartdrive/test/history"
	"example.org/smartdrive/test/system/rig"
)

// readers is the number of connections that request a zip and never read it.
const readers = 128

// address is one of eight of loopback.
func address(i int) string { return fmt.Sprintf("127.0.0.%d", 11+i%8) }

// share returns the address of the zip of a folder that everybody may have.
func (s *stage) share(u rig.User, folder string) string {
	s.Helper()
	made := u.Post(s, "/shares", map[string]any{"node": folder}).JSON(s, http.StatusCreated)
	token := made["token"].(string)
	opened := s.from(address(0)).Post(s, "/public/shares/"+token+"/open", map[string]any{}).JSON(s, http.StatusOK)
	return "/api/v1/public/shares/" + token + "/nodes/root/zip?access=" + opened["access"].(string)
}

// hold sends a request on many connections and keeps them open without reading.
func (s *stage) hold(request func(i int) string) plan {
	h := new(held)
	return plan{run: func() {
		each(readers, func(i int) { h.open(s, address(i), request(i), nil) })
		s.calm()
	}, end: h.close}
}

func shareZips(s *stage) plan {
	u := s.user("zip", 0)
	folder := s.folder(u, "root", "shared")
	for i := range uint64(depth.Pick(4, 4, 8)) {
		u.Put(s, fmt.Sprintf("/shared/%d", i), history.Content{Seed: 100 + i, Size: 16 * mib})
	}
	at := s.share(u, folder)
	return s.hold(func(int) string { return head("GET", at, "") })
}

// longPaths shares a folder whose files have paths of the maximum length.
func longPaths(s *stage) plan {
	u := s.user("paths", 0)
	top := s.folder(u, "root", "t")
	at, path := top, "/t"
	for i := range 14 {
		name := strings.Repeat(string(rune('a'+i)), 250)
		at, path = s.folder(u, at, name), path+"/"+name
	}
	s.fill(u, path, strings.Repeat("z", 200), depth.Pick(100, 400, 4200)) // 16 MiB of names; more is refused
	zip := s.share(u, top)
	return s.hold(func(int) string { return head("GET", zip, "") })
}

// sealed waits until a batch is sealed.
func (s *stage) sealed(u rig.User, id string) {
	s.Helper()
	s.until("an export is sealed", func() error {
		if view := s.insist(u, "GET", "/exports/"+id, nil).JSON(s, http.StatusOK); view["state"] != "sealed" {
			return fmt.Errorf("it is %v: %v", view["state"], view["error"])
		}
		return nil
	})
}

func exportZips(s *stage) plan {
	var users []rig.User
	var ids []string
	for n := range 4 {
		u := s.user("export", n)
		for i := range uint64(4) {
			u.Put(s, fmt.Sprintf("/all/%d", i), history.Content{Seed: 200 + i, Size: 16 * mib})
		}
		folder := u.Node(s, "/all")["id"].(string)
		id := u.Post(s, "/exports", map[string]any{"folder": folder}).JSON(s, http.StatusCreated)["id"].(string)
		s.sealed(u, id)
		users, ids = append(users, u), append(ids, id)
	}
	return s.hold(func(i int) string {
		return head("GET", "/api/v1/exports/"+ids[i%4]+"/content", users[i%4].Token)
	})
}

// manifest returns a list with names of the maximum length, a third of them in their longest JSON
// form: 10,000 entries take 28 MiB. Every second entry refers to a missing file.
func manifest(entries int) []byte {
	var b bytes.Buffer
	folders := strings.Repeat(`\u0064`, 249) + "/" + strings.Repeat(strings.Repeat("d", 249)+"/", 2)
	for i := range entries {
		gone := strings.Repeat("/"+strings.Repeat("g", 249), 4*(i%2))
		fmt.Fprintf(&b, `{"path":"%s/f","id":"%0255d","name":"%s%06d"}`+"\n", gone, i, folders, i)
	}
	return b.Bytes()
}

// lists sends a list for each of some users as often as said, side by side, until each was taken
// once. It returns the batches that were made.
func (s *stage) sendLists(users, times int, body []byte) (ids [][]string) {
	s.Helper()
	ids = make([][]string, users)
	for n := range users {
		s.user("list", n)
	}
	each(users*times, func(i int) {
		u := s.user("list", i%users)
		s.until("a list is taken", func() error {
			r := s.ask(u, "POST", "/exports/manifest?name=long", body)
			if r.StatusCode == http.StatusServiceUnavailable || r.StatusCode == http.StatusTooManyRequests {
				return fmt.Errorf("%s", r)
			}
			var made struct{ ID string }
			if err := json.Unmarshal(r.Bytes, &made); r.StatusCode != http.StatusCreated || err != nil {
				s.Errorf("a list is answered with %s", r)
				return nil
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			ids[i%users] = append(ids[i%users], made.ID)
			return nil
		})
	})
	return ids
}

func manifests(s *stage) plan {
	for n := range 3 {
		s.user("list", n).Put(s, "/f", history.Content{Seed: 3, Size: 1000})
	}
	body := manifest(depth.Pick(100, 2_000, 10_000))
	return plan{run: func() {
		ids := s.sendLists(3, 2, body)
		for n, all := range ids {
			for _, id := range all {
				s.sealed(s.user("list", n), id)
				s.insist(s.user("list", n), "DELETE", "/exports/"+id, nil)
			}
		}
	}, end: nothing}
}

// keptLists reads the first byte of eight zips with the longest lists: their layouts are kept.
func keptLists(s *stage) plan {
	for n := range 4 {
		s.user("kept", n).Put(s, "/f", history.Content{Seed: 3, Size: 1000})
	}
	body := manifest(depth.Pick(100, 1_000, 10_000))
	type batch struct {
		u  rig.User
		id string
	}
	var all []batch
	for i := range 8 {
		u := s.user("kept", i%4)
		id := u.Do(s, "POST", "/exports/manifest?name=long", body).JSON(s, http.StatusCreated)["id"].(string)
		s.sealed(u, id)
		all = append(all, batch{u, id})
	}
	return plan{run: func() {
		each(2*len(all), func(i int) {
			b := all[i%len(all)]
			s.ask(b.u, "GET", "/exports/"+b.id+"/content", nil, "Range", "bytes=0-0")
		})
		s.calm()
	}, end: nothing}
}
