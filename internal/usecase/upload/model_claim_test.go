package upload_test

import (
	"bytes"

	"lukechampine.com/blake3"
	"pgregory.net/rapid"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/upload"
)

func (h *history) claim(rt *rapid.T) {
	it := h.pick(rt)
	sum := blake3.Sum256(it.file(original))
	var v upload.View
	faulty, err := h.under(rt, "claim "+it.path, func() (err error) {
		v, err = h.Patch(rt.Context(), h.who[it.who], it.id, upload.Patch{Digests: digest.Set{digest.Blake3: sum[:]}})
		return err
	})
	if err == nil || faulty && it.isOpen() {
		if err == nil {
			it.ask = v.Challenge
		}
		it.want, it.wrong = digest.Set{digest.Blake3: sum[:]}, false
	}
	if err != nil && !faulty && it.isOpen() && !drive.IsKind(err, drive.Quota) {
		rt.Fatalf("claim: %v", err)
	}
}

func (h *history) prove(rt *rapid.T) {
	it := h.pick(rt)
	if it.ask == nil {
		rt.Skip("not asked")
	}
	answer, err := digest.Answer(rt.Context(), bytes.NewReader(it.file(original)), *it.ask, digest.ProofBlake3)
	if err != nil {
		rt.Fatal(err)
	}
	if rapid.IntRange(0, 2).Draw(rt, "wrong") == 0 {
		answer[0] ^= 1
	}
	faulty, err := h.under(rt, "prove "+it.path, func() error {
		_, err := h.AnswerChallenge(rt.Context(), h.who[it.who], it.id, digest.ProofBlake3, answer)
		return err
	})
	if err != nil && !faulty && it.isOpen() && !drive.IsKind(err, drive.Quota) {
		rt.Fatalf("prove: %v", err)
	}
}

func (h *history) cancel(rt *rapid.T) {
	it := h.pick(rt)
	faulty, err := h.under(rt, "cancel "+it.path, func() error { return h.Cancel(rt.Context(), h.who[it.who], it.id) })
	if err != nil && !faulty && it.isOpen() {
		rt.Fatalf("cancel: %v", err)
	}
}

func (h *history) get(rt *rapid.T) {
	it := h.pick(rt)
	h.turn(rt)
	v, err := h.Get(rt.Context(), h.who[it.who], it.id)
	public := it.state
	if public == "reclaiming" {
		public = "gone"
	}
	if public == "gone" != drive.IsKind(err, drive.Gone) || err == nil && v.State != public {
		rt.Fatalf("get in state %s: %s, %v", it.state, v.State, err)
	}
}

func (h *history) quota(rt *rapid.T) {
	i := rapid.IntRange(0, 1).Draw(rt, "who")
	h.SetTotal(rt, h.who[i], drive.ByteSize(rapid.SampledFrom([]int{0, 1, 3000, 3 * mib, 100 * mib}).Draw(rt, "total")))
}

func (h *history) crash(rt *rapid.T) {
	h.faulted = true
	h.turn(rt)
	h.Restart(rt)
}
