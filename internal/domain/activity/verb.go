package activity

import (
	"slices"
	"strings"
)

// Verb names what was done. It is also the type of the event sent to clients.
type Verb string

// The verbs. A test checks that each is written somewhere.
const (
	NodeCreated       Verb = "node.created"
	NodeCopied        Verb = "node.copied"  // a new node created by copying a folder
	NodeChanged       Verb = "node.changed" // content or modification time changed
	NodeMoved         Verb = "node.moved"   // renamed or moved to another folder
	NodeTrashed       Verb = "node.trashed"
	NodeRestored      Verb = "node.restored" // from the trash
	NodeCopyCompleted Verb = "node.shown"    // the copy of a folder is complete and visible
	NodePurgeBegun    Verb = "node.doomed"   // its permanent deletion begins
	NodeDeleted       Verb = "node.deleted"  // permanently
	NodeHandedAway    Verb = "node.left"     // handed over to another account
	NodeHandedIn      Verb = "node.arrived"  // handed over from another account
	DriveHanded       Verb = "drive.handed"  // the handover of a user's whole drive begins
	GrantSet          Verb = "grant.set"     // a role was given or changed
	GrantTaken        Verb = "grant.taken"
	SpaceCreated      Verb = "space.created"
	SpaceChanged      Verb = "space.changed" // renamed, archived, deleted, restored, or its quota changed

	ShareCreated   Verb = "share.created" // a link for downloads
	ShareChanged   Verb = "share.changed"
	ShareEnded     Verb = "share.ended"
	CollectCreated Verb = "collect.created" // a link for uploads
	CollectChanged Verb = "collect.changed"
	CollectEnded   Verb = "collect.ended"

	WebhookCreated  Verb = "webhook.created"
	WebhookChanged  Verb = "webhook.changed"
	WebhookDisabled Verb = "webhook.disabled" // because deliveries fail, or its creator lost the right
	WebhookDeleted  Verb = "webhook.deleted"

	// Events of a user's own account; a webhook only gets them if it lists them.
	LoginCreated      Verb = "login.created"
	LoginFailed       Verb = "login.failed" // wrong passwords, combined into one entry per hour
	LoginEnded        Verb = "login.ended"
	TokenCreated      Verb = "token.created" // app passwords, too
	TokenEnded        Verb = "token.ended"
	IdentityConnected Verb = "identity.connected"
	IdentityEnded     Verb = "identity.ended"
	PasswordChanged   Verb = "password.changed"
	SettingChanged    Verb = "setting.changed" // a server setting, changed by an administrator

	NoticeTold Verb = "notice.told" // the account's user got a notification

	DownloadBegun Verb = "download.begun" // of a file or zip; combined into one entry per hour

	// Events of the stream, under the same names.
	UploadBegun      Verb = "upload.begun"
	UploadParked     Verb = "upload.parked"
	UploadResumed    Verb = "upload.resumed"
	UploadDone       Verb = "upload.done"
	UploadGone       Verb = "upload.gone"
	BundleSealed     Verb = "bundle.sealed"
	DocumentAccepted Verb = "document.accepted"
	DocumentConflict Verb = "document.conflict"
	DocumentRejected Verb = "document.rejected"
	DocumentAllowed  Verb = "document.allowed" // a user accepted a rejected document and gave a reason
	ExportSealed     Verb = "export.sealed"
	ExportFailed     Verb = "export.failed"
	ExportEnding     Verb = "export.ending"
	ExportLate       Verb = "export.late"
)

// Verbs returns all verbs.
func Verbs() []Verb {
	return []Verb{
		NodeCreated, NodeCopied, NodeChanged, NodeMoved, NodeTrashed, NodeRestored, NodeCopyCompleted, NodePurgeBegun, NodeDeleted,
		NodeHandedAway, NodeHandedIn, DriveHanded,
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

// Known reports whether v is one of Verbs.
func (v Verb) Known() bool { return slices.Contains(Verbs(), v) }

// Matches reports whether a verb is one of types or starts with one of them, such as "node". Empty
// types match everything but uploads and downloads, which are frequent, and notices, which repeat
// other entries.
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

// Security returns the verb prefixes about a user's own account: logins, tokens, password,
// identities, and server settings that the user has changed.
func Security() []string { return []string{"login", "token", "identity", "password", "setting"} }

// SentToWebhook reports whether a webhook for types gets a verb. Empty types match as in Matches,
// but without Security: a webhook must request those explicitly.
func SentToWebhook(verb Verb, types []string) bool {
	return Matches(verb, types) && (len(types) > 0 || !Matches(verb, Security()))
}
