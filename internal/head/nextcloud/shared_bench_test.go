package nextcloud_test

import (
	"strconv"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/head/dav/davtest"
)

// BenchmarkReceiverOf10000 measures requests of a user with whom 10,000 folders are shared: the
// poll of the root, and the list of shares.
//
//	go test ./internal/head/nextcloud -run XXX -bench ReceiverOf10000 -benchtime 3x
func BenchmarkReceiverOf10000(b *testing.B) {
	const properties = `<d:propfind xmlns:d="DAV:" xmlns:oc="http://owncloud.org/ns"><d:prop><d:getetag/><oc:fileid/><oc:permissions/><oc:size/></d:prop></d:propfind>`
	s := newStack(b)
	s.CreateUser(b, "bob")
	s.Do(b, "MKCOL "+home+"team").Want(b, 201)
	s.grant(b, "team", access.Editor, 0)
	s.CreateFolders(b, s.Who, s.node(b, ""), 0, 9_999, s.People["bob"].User) // 10,000 with "team": the most that one person may see
	s.CreateFolders(b, s.Who, s.node(b, ""), 9_999, 10_000, drive.UserID{})
	for what, at := range map[string]string{"poll": bobs, "list": shared} {
		for depth := range 2 {
			b.Run(what+" depth "+strconv.Itoa(depth), func(b *testing.B) {
				for b.Loop() {
					s.Do(b, "PROPFIND "+at, "Depth: "+strconv.Itoa(depth), davtest.AuthHeader("bob"), "", properties).Want(b, 207)
				}
			})
		}
	}
}
