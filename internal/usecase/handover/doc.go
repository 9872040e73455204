// Package handover transfers the contents of a user's drive to another user or to a space, when the
// user leaves. An administrator requests the transfer, and package files runs it as an operation in
// the background.
//
// # Effects
//
//   - Files keep their ids, versions and dates and move, trash included, into a new folder of the
//     receiver. Folders are created there and deleted here, so they get new ids.
//   - Grants to named users and groups stay, on the moved file or on the folder that replaces the
//     original. The receiver now manages them.
//   - Share links and collect links end, because their owner may not grant access any more.
//   - Sessions, tokens and app passwords end, and the user is disabled. An administrator may enable
//     the user again.
//   - Unfinished uploads are cancelled.
//   - WebDAV locks end. Stars on files stay, stars on folders do not.
//   - Exports, webhooks, sources of documents and the activity log stay with the account and are
//     deleted with the user. Documents that were taken in lose their files.
//   - At the end the drive is closed: nothing can be added until the user is enabled again.
//
// The user cannot be deleted before the handover is done; see Busy.
package handover
