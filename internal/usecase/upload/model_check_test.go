package upload_test

import (
	"bytes"
	"errors"
	"hash/crc32"
	"time"

	"pgregory.net/rapid"

	"example.org/smartdrive/internal/engine/blob"
)

// check verifies the invariants after every step.
func (h *history) check(rt *rapid.T) {
	for i, who := range h.who {
		h.CheckLedger(rt, who)
		used, total := h.Used(rt, who)
		if total >= 0 && used > max(total, h.used[i]) {
			rt.Fatalf("Q4: account %d uses %d of %d, before this step %d", i, used, total, h.used[i])
		}
		h.used[i] = used
	}
	for _, id := range h.order {
		h.checkItem(rt, h.items[id])
	}
}

// follows lists the states that a state may turn into, in one step of a history.
var follows = map[string]string{
	"": "active parked sealing reclaiming done gone", "active": "active parked sealing reclaiming done gone",
	"parked": "active parked sealing reclaiming done gone", "sealing": "sealing active parked done reclaiming gone",
	"reclaiming": "reclaiming gone", "done": "done", "gone": "gone",
}

func (h *history) checkItem(rt *rapid.T, it *item) {
	was, wasGen := it.state, it.gen
	it.state, it.gen = h.State(rt, it.id)
	if !bytes.Contains([]byte(follows[was]), []byte(it.state)) || it.gen < wasGen || it.gen == wasGen && it.state != was {
		rt.Fatalf("P4: %s went from %s (gen %d) to %s (gen %d)", it.path, was, wasGen, it.state, it.gen)
	}
	switch it.state {
	case "active", "parked", "sealing":
		h.checkParts(rt, it)
	case "done":
		if was != "done" {
			h.checkDone(rt, it)
		}
	}
}

// checkParts verifies P1 and P2: acknowledged parts exist, and nothing exists that was not sent.
func (h *history) checkParts(rt *rapid.T, it *item) {
	parts, err := h.ListParts(rt.Context(), h.who[it.who], it.id)
	if err != nil {
		rt.Fatalf("list parts of %s: %v", it.path, err)
	}
	there := map[int]blob.Part{}
	for _, p := range parts {
		there[p.N] = p
		ok := false
		for variant := range 2 {
			if v, acked := it.acked[p.N]; acked && v == variant || !acked && it.maybe[p.N][variant] {
				ok = ok || p.Unread && h.several && int(p.Size) == len(it.part(p.N, variant)) || crc32.ChecksumIEEE(it.part(p.N, variant)) == p.CRC32
			}
		}
		if !ok {
			rt.Fatalf("P1: %s has a part %d that was never sent like that", it.path, p.N)
		}
	}
	for n := range it.acked {
		if _, ok := there[n]; !ok {
			rt.Fatalf("P2: %s in state %s lost part %d", it.path, it.state, n)
		}
	}
}

// checkDone verifies P3. A linked file has the original bytes, whatever was sent.
func (h *history) checkDone(rt *rapid.T, it *item) {
	got := h.Read(rt, h.who[it.who], it.path)
	sent := func(n int) int {
		v, ok := it.acked[n]
		from := n * it.partSize()
		if !ok && it.maybe[n][1] && from < len(got) && bytes.HasPrefix(got[from:], it.part(n, 1)) {
			return 1
		}
		return v
	}
	if !bytes.Equal(got, it.file(original)) && (len(it.want) > 0 || !bytes.Equal(got, it.file(sent))) {
		rt.Fatalf("P3: %s has other bytes than were sent", it.path)
	}
}

func (h *history) checkFile(rt *rapid.T, it *item, variant func(int) int) {
	if !bytes.Equal(h.Read(rt, h.who[it.who], it.path), it.file(variant)) {
		rt.Fatalf("P3: %s has other bytes", it.path)
	}
}

func (h *history) cancelAll(rt *rapid.T) {
	for _, id := range h.order {
		it := h.items[id]
		if it.state == "sealing" || it.state == "reclaiming" {
			rt.Fatalf("%s is still %s", it.path, it.state)
		}
		if err := h.Cancel(rt.Context(), h.who[it.who], id); err != nil && it.state != "done" {
			rt.Fatalf("cancel: %v", err)
		}
	}
}

// drain ends all uploads and checks what is left.
func (h *history) drain() {
	rt := h.rt
	for range 4 { // seals that a fault has stopped are redone
		h.Clock.Advance(20 * time.Second)
		h.Fire(rt)
		h.Settle()
	}
	h.check(rt)
	if rapid.Bool().Draw(rt, "cancel all") {
		h.cancelAll(rt)
	} else { // whatever went wrong, each upload still has a timer that ends it
		for range 6 {
			h.Clock.Advance(20 * time.Hour)
			h.Fire(rt)
			h.Settle()
		}
	}
	h.check(rt)
	for i, who := range h.who {
		if b := h.Balance(rt, who); !bytes.HasSuffix([]byte(b), []byte("/0/0")) {
			rt.Fatalf("when all has ended the ledger of account %d is %s", i, b)
		}
	}
	for _, id := range h.order {
		if it := h.items[id]; it.state != "done" && it.state != "gone" {
			rt.Fatalf("P4: %s ends as %s", it.path, it.state)
		}
	}
	h.checkMemory(rt)
	staged, blobs := h.Staged(rt), h.CheckBlobs(rt)
	fewer := h.several && len(staged) <= h.left["staged"] && len(blobs) <= h.left["blobs"] // a timer of an older history, or a flush
	if !h.faulted && !fewer && (len(staged) != h.left["staged"] || len(blobs) != h.left["blobs"]) {
		rt.Fatal(errors.New("bytes are left without any fault"), staged, blobs)
	}
}
