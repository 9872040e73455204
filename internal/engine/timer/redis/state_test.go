package redis

import (
	"maps"
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/timer"
)

func FuzzParseState(f *testing.F) {
	f.Add(strings.Repeat("\x11", stateLen))
	f.Add("\x15" + strings.Repeat("\xff", stateLen-1))
	f.Fuzz(func(t *testing.T, s string) {
		st, err := parseState(s)
		if err != nil {
			return
		}
		if (len(s) != stateLen && len(s) != stateLen+countLen) || s[0]>>4 != format || st.idle < 0 || st.first < 0 || st.indexed > maxInt || st.due() < st.indexed {
			t.Errorf("%q was read as %+v", s, st)
		}
	})
}

func FuzzParseFired(f *testing.F) {
	f.Add(strings.Repeat("\x11", firedLen) + "instance")
	f.Fuzz(func(t *testing.T, s string) {
		fired, holder, err := parseFired(s)
		if err == nil && (len(s) < firedLen+len(holder) || fired.Attempt < 0 || fired.First < 0) {
			t.Errorf("%q was read as %+v of %q", s, fired, holder)
		}
	})
}

// What an older release has frozen is read, too.
func TestFiredWithAndWithoutPushBacks(t *testing.T) {
	t.Parallel()
	old := strings.Repeat("\x01", firedLen) + "7"
	f, holder, err := parseFired(old)
	if err != nil || holder != "7" || f.PushBacks != 0 || f.Slice != "" {
		t.Errorf("without: %+v of %q, %v", f, holder, err)
	}
	at := time.Date(2026, 11, 20, 23, 54, 7, 0, time.UTC).UnixMilli()
	f, holder, err = parseFired(old + string(append(append6([]byte("\x00\x00\x00\x00\x0a"), at), 0)))
	if err != nil || holder != "7" || f.PushBacks != 10 || f.Slice != "2026-11-20 23:54" {
		t.Errorf("with: %+v of %q, %v", f, holder, err)
	}
}

// What Go packs has the lengths that the scripts read.
func TestPacking(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_700_000_000_000)
	x := timer.Entry{Key: timer.Key{Kind: timer.Park}, Gen: -5, Idle: time.Nanosecond, Max: timer.MaxDelay, Last: 1, First: drive.TimeOf(now)}
	if n := len(encodeEntry(&x, now)); n != 64 {
		t.Errorf("an armed timer has %d bytes, the script reads 64", n)
	}
	o := timer.Outcome{Key: x.Key, Token: 1, Verdict: timer.Retry, In: timer.MaxDelay * 2, Attempt: -1}
	if n := len(encodeOutcome(&o)); n != 35 {
		t.Errorf("an outcome has %d bytes, the script reads 35", n)
	}
}

func TestOwnerOfAShardMovesOnlyWithItsOwner(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "c", "d"}
	load := map[string]int{}
	for shard := range defaultShards {
		was := owner(names, shard)
		load[was]++
		if left := owner(names[:3], shard); was != "d" && left != was {
			t.Errorf("d left, and shard %d of %s went to %s", shard, was, left)
		}
	}
	for _, name := range names {
		if load[name] < defaultShards/len(names)/3 {
			t.Errorf("%s owns %d of %d shards: %v", name, load[name], defaultShards, load)
		}
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	good := map[string]string{
		"redis_version": "7.0.15", "maxmemory_policy": "noeviction", "redis_mode": "standalone", "role": "master", "aof_enabled": "1",
	}
	for _, test := range []struct {
		name, field, value string
		cluster            bool
		skew               time.Duration
		refused, warned    string
	}{
		{name: "good"},
		{name: "old", field: "redis_version", value: "6.2.7", refused: "7.0 or later"},
		{name: "evicts", field: "maxmemory_policy", value: "allkeys-lru", refused: "set noeviction"},
		{name: "cluster unasked", field: "redis_mode", value: "cluster", refused: "add ?cluster=true"},
		{name: "no cluster", cluster: true, refused: "remove ?cluster=true"},
		{name: "replica", field: "role", value: "slave", refused: "replica"},
		{name: "no log", field: "aof_enabled", value: "0", warned: "append-only"},
		{name: "clock", skew: -time.Minute, warned: "clock is -1m0s off"},
	} {
		s := server{addr: "a:1", info: maps.Clone(good), skew: test.skew}
		s.info[test.field] = test.value
		warnings, err := s.verify(test.cluster)
		if (err != nil) != (test.refused != "") || err != nil && !strings.Contains(err.Error(), test.refused) {
			t.Errorf("%s: %v", test.name, err)
		}
		if all := strings.Join(warnings, "\n"); (all != "") != (test.warned != "") || !strings.Contains(all, test.warned) {
			t.Errorf("%s: warnings %q", test.name, all)
		}
	}
}
