package activity

import (
	"slices"
	"strings"
)

// Verb says what was done. It is the type of the event that is given out.
type Verb string

// The verbs. What nobody writes is not listed: a test looks.
const (
	NodeCreated  Verb = "node.created"
	NodeCopied   Verb = "node.copied"  // a new node, by a copy of a folder
	NodeChanged  Verb = "node.changed" // another content, or another time
	NodeMoved    Verb = "node.moved"   // renamed, or another folder
	NodeTrashed  Verb = "node.trashed"
	NodeRestored Verb = "node.restored" // from the trash
	NodeShown    Verb = "node.shown"    // the copy of a folder is complete
	NodeDoomed   Verb = "node.doomed"   // it will be deleted for good
	NodeDeleted  Verb = "node.deleted"  // for good
	NodeLeft     Verb = "node.left"     // it was handed to another account
	NodeArrived  Verb = "node.arrived"  // it was handed over by another account
	DriveHanded  Verb = "drive.handed"  // all of a user's files begin to go to somebody else
	GrantSet     Verb = "grant.set"     // a role was given, or another one
	GrantTaken   Verb = "grant.taken"
	SpaceCreated Verb = "space.created"
	SpaceChanged Verb = "space.changed" // renamed, archived, deleted, brought back, another total

	ShareCreated   Verb = "share.created" // a link by which others read
	ShareChanged   Verb = "share.changed"
	ShareEnded     Verb = "share.ended"
	CollectCreated Verb = "collect.created" // a link by which others send
	CollectChanged Verb = "collect.changed"
	CollectEnded   Verb = "collect.ended"

	WebhookCreated  Verb = "webhook.created"
	WebhookChanged  Verb = "webhook.changed"
	WebhookDisabled Verb = "webhook.disabled" // because it fails, or whoever made it may not any more
	WebhookDeleted  Verb = "webhook.deleted"

	// Of what a user does with their own account; webhooks are sent it where they name it.
	LoginCreated      Verb = "login.created"
	LoginFailed       Verb = "login.failed" // with a wrong password: an entry an hour
	LoginEnded        Verb = "login.ended"
	TokenCreated      Verb = "token.created" // app passwords, too
	TokenEnded        Verb = "token.ended"
	IdentityConnected Verb = "identity.connected"
	IdentityEnded     Verb = "identity.ended"
	PasswordChanged   Verb = "password.changed"
	SettingChanged    Verb = "setting.changed" // of the server, by an administrator

	NoticeTold Verb = "notice.told" // the account's user was told something

	DownloadBegun Verb = "download.begun" // of a file, or a zip: gathered, an entry an hour

	// Those of the stream, under the names that they have there.
	UploadBegun      Verb = "upload.begun"
	UploadParked     Verb = "upload.parked"
	UploadResumed    Verb = "upload.resumed"
	UploadDone       Verb = "upload.done"
	UploadGone       Verb = "upload.gone"
	BundleSealed     Verb = "bundle.sealed"
	DocumentAccepted Verb = "document.accepted"
	DocumentConflict Verb = "document.conflict"
	DocumentRejected Verb = "document.rejected"
	DocumentAllowed  Verb = "document.allowed" // somebody accepted a rejected one, and said why
	ExportSealed     Verb = "export.sealed"
	ExportFailed     Verb = "export.failed"
	ExportEnding     Verb = "export.ending"
	ExportLate       Verb = "export.late"
)

// Verbs lists the verbs.
func Verbs() []Verb {
	return []Verb{
		NodeCreated, NodeCopied, NodeChanged, NodeMoved, NodeTrashed, NodeRestored, NodeShown, NodeDoomed, NodeDeleted,
		NodeLeft, NodeArrived, DriveHanded,
		GrantSet, GrantTaken, SpaceCreated, SpaceChanged,
		ShareCreated, ShareChanged, ShareEnded, CollectCreated, CollectChanged, CollectEnded,
		WebhookCreated, WebhookChanged, WebhookDisabled, WebhookDeleted,
		LoginCreated, LoginFailed, LoginEnded, TokenCreated, TokenEnded, PasswordChanged, IdentityConnected, IdentityEnded, SettingChanged,
		NoticeTold, DownloadBegun,
		UploadBegun, UploadParked, UploadResumed, UploadDone, UploadGone,
		BundleSealed, DocumentAccepted, DocumentConflict, DocumentRejected, DocumentAllowed,
		ExportSealed, ExportFailed, ExportEnding, ExportLate,
	}
}

// Known reports whether there is such a verb.
func (v Verb) Known() bool { return slices.Contains(Verbs(), v) }

// Matches reports whether a verb is one of those asked for: it is named, or begins with what is
// named, such as node. Where nothing is named it is all but uploads and downloads, of which there
// are many, and notices, which tell of what is there already.
func Matches(verb Verb, types []string) bool {
	if len(types) == 0 {
		kind, _, _ := strings.Cut(string(verb), ".")
		return !slices.Contains([]string{"upload", "download", "notice"}, kind)
	}
	for _, t := range types {
		if string(verb) == t || strings.HasPrefix(string(verb), t+".") {
			return true
		}
	}
	return false
}

// Security are the kinds of entries about a user's own account: logins, tokens, the password, who
// they are at an identity provider, and settings of the server that the user has changed.
func Security() []string { return []string{"login", "token", "identity", "password", "setting"} }

// Sent reports whether a webhook for some types is sent a verb. Where nothing is named it is what
// Matches says, but nothing about somebody's account: another program has to be meant to know from
// where they log in.
func Sent(verb Verb, types []string) bool {
	return Matches(verb, types) && (len(types) > 0 || !Matches(verb, Security()))
}
