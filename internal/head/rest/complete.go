package rest

import (
	"context"
	"encoding/hex"
	"net/http"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/upload"
)

// completeBody is the JSON request body of POST /uploads/{id}/complete.
type completeBody struct {
	Digests  digest.Set    `json:"digests,omitempty" doc:"as at begin; a strong digest is required if several sessions sent parts"`
	Parent   *string       `json:"parent,omitempty" doc:"id of another folder, or root"`
	Name     nameField     `json:"name,omitempty"`
	Conflict conflictField `json:"conflict,omitempty" enum:"fail,rename,replace" doc:"absent: unchanged; replace: replaces the current version"`
	Size     *int64        `json:"size,omitempty" minimum:"0" doc:"bytes; required if begin sent null"`
}

// complete serves POST /uploads/{id}/complete. It replies 201 with api.Upload, 200 with api.Upload
// or 202 with api.Upload. Beyond the errors common to all routes it fails with drive.BadName,
// drive.NotFound, drive.Gone, drive.PartsMissing, drive.PartSize, drive.NameTaken,
// drive.ParentGone, drive.VersionChanged, drive.Locked, drive.DigestMismatch, drive.DigestRequired,
// drive.TooLarge, drive.Quota or drive.InProgress. The file is visible once the reply is 200 or
// 201; with 202 it is still being assembled and the client asks again.
func (u uploads) complete(ctx context.Context, c *call, id drive.UploadID, in *completeBody) (reply, error) {
	if c.sender != nil {
		in.Parent = nil // the link decides the folder
	}
	parent, err := folderID(ctx, c, u.files, in.Parent)
	if err != nil {
		return reply{}, err
	}
	done := upload.Complete{
		Digests: in.Digests, Parent: parent, Name: drive.Name(in.Name), Conflict: drive.Conflict(in.Conflict),
	}
	if in.Size != nil {
		if *in.Size < 0 {
			return reply{}, drive.BadField("size", drive.OutOfRange, "min", 0, "max", drive.MaxFileSize, "sent", *in.Size)
		}
		size := drive.ByteSize(*in.Size)
		done.Size = &size
	}
	if c.sender != nil {
		if done, err = u.completeRequest(ctx, *c.sender, id, done); err != nil {
			return reply{}, err
		}
	}
	v, created, err := u.sessions.Complete(ctx, c.who, id, done)
	switch {
	case err != nil:
		return reply{}, err
	case v.State == upload.Sealing.Public():
		return u.answer(ctx, c, http.StatusAccepted, v)
	case created:
		return u.answer(ctx, c, http.StatusCreated, v)
	}
	return u.answer(ctx, c, http.StatusOK, v)
}

// proofBody is the JSON request body of POST /uploads/{id}/proof.
type proofBody struct {
	Alg    string `json:"alg" enum:"hmac-sha256,blake3"`
	Answer string `json:"answer" doc:"64 lower-case hex digits"`
}

// prove serves POST /uploads/{id}/proof. It replies 201 with api.Upload or 200 with api.Upload.
// Beyond the errors common to all routes it fails with drive.NotFound, drive.Gone,
// drive.WrongState, drive.NameTaken, drive.ParentGone, drive.Quota or drive.InProgress. A wrong
// answer is no error: the reply is the upload without the challenge.
func (u uploads) prove(ctx context.Context, c *call, id drive.UploadID, in *proofBody) (reply, error) {
	alg, err := digest.ParseProofAlgo(in.Alg)
	if err != nil {
		return reply{}, err
	}
	answer, err := hex.DecodeString(in.Answer)
	if err != nil || len(answer) != digest.Size {
		return reply{}, drive.BadField("answer", drive.Malformed, "expected", "64 hex digits")
	}
	v, err := u.sessions.AnswerChallenge(ctx, c.who, id, alg, answer)
	switch {
	case err != nil:
		return reply{}, err
	case v.State == upload.Done.Public():
		return u.answer(ctx, c, http.StatusCreated, v)
	}
	return u.answer(ctx, c, http.StatusOK, v)
}
