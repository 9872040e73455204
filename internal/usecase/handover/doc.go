// Package handover gives all that is in a user's drive to another user or to a space, for users who
// leave: an administrator asks for it, and package files does it, as an operation.
//
// # What becomes of what the user had
//
//   - Files go with their ids, versions and dates, those in the trash too, into a new folder of the
//     receiver. Folders are made there and deleted here, so they get new ids.
//   - What was shared with others by name stays shared with them, at the file or at the folder that
//     took the place of the one it was. The receiver, whose drive it is now, decides about it.
//   - Links by which others read or send are ended: the one who gave them out may not any more.
//   - Sign-ins, tokens and app passwords are ended, and the user is disabled, which an administrator
//     may take back.
//   - Uploads that have not ended are cancelled.
//   - Locks of WebDAV clients are ended. Stars at files stay, those at folders do not.
//   - Exports, webhooks, sources of documents and the activity log stay with the account, and go with
//     it when the user is deleted. Documents that were taken in lose their files.
//   - The drive is closed at the end: nothing comes into it until the user is enabled again.
//
// A user cannot be deleted before it is done: Busy.
package handover
