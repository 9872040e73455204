package redis_test

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"
)

// checkConsistent reads all keys of a namespace and compares them: a pending timer is only in the
// slice named by its state, a leased one is in inf and ev, dir lists the existing slices, and there
// are no other keys.
func checkConsistent(t testing.TB, c goredis.UniversalClient, namespace string) {
	t.Helper()
	ctx := t.Context()
	states, index := map[string]string{}, map[string]string{} // lane/id -> state, lane/id -> slice and score
	leased, frozen, dirs := map[string]bool{}, map[string]bool{}, map[string]bool{}
	keys, err := c.Keys(ctx, "{"+namespace+":t*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		lane, last := key[:strings.LastIndex(key, ":")+1], key[strings.LastIndex(key, ":")+1:]
		switch last {
		case "meta":
		case "st":
			for id, v := range c.HGetAll(ctx, key).Val() {
				states[lane+id] = v
			}
		case "ev":
			for id := range c.HGetAll(ctx, key).Val() {
				frozen[lane+id] = true
			}
		case "inf":
			for _, z := range c.ZRangeWithScores(ctx, key, 0, -1).Val() {
				leased[lane+z.Member.(string)] = true
			}
		case "dir":
			for _, code := range c.ZRange(ctx, key, 0, -1).Val() {
				dirs[lane+code] = true
			}
		default:
			if !dirs[key] {
				dirs[key] = false
			}
			for _, z := range c.ZRangeWithScores(ctx, key, 0, -1).Val() {
				if was := index[lane+z.Member.(string)]; was != "" {
					t.Errorf("%q is in two slices: %s and %s", z.Member, was, last)
				}
				index[lane+z.Member.(string)] = fmt.Sprintf("%s %.0f", last, z.Score)
			}
		}
	}
	for key := range dirs {
		if n := c.Exists(ctx, key).Val(); n == 0 {
			t.Errorf("dir lists %s, which is empty", key)
		}
		lane, code := key[:strings.LastIndex(key, ":")+1], key[strings.LastIndex(key, ":")+1:]
		if c.ZScore(ctx, lane+"dir", code).Err() != nil {
			t.Errorf("%s is not in dir", key)
		}
	}
	for id, v := range states {
		at := binary.BigEndian.Uint64([]byte("\x00\x00" + v[49:55]))
		want, isLeased := fmt.Sprintf("m%d %d", at/60_000, at), v[0]&1 != 0
		if v[0]&4 != 0 {
			want = fmt.Sprintf("h%d %d", at/3_600_000, at)
		}
		if isLeased {
			want = ""
		}
		if index[id] != want || leased[id] != isLeased || frozen[id] != isLeased {
			t.Errorf("%q is indexed under %q, want %q; leased %v, inf %v, ev %v", id, index[id], want, isLeased, leased[id], frozen[id])
		}
	}
	for id := range index {
		if states[id] == "" {
			t.Errorf("%q is indexed, and there is no such timer", id)
		}
	}
	for id := range frozen {
		if states[id] == "" {
			t.Errorf("%q is frozen, and there is no such timer", id)
		}
	}
}
