// Texts of sharing with people, of spaces and of what is shared. They are not loaded with the first page.
const messages = {
  people: {
    title: "Who has access to “{name}”", add: "Give access", who: "Person or group", whoHint: "The first letters of a name, two at least", searching: "Searching…", nobody: "Nobody with this name, or they have access already.", many: "There may be more: write more of the name.",
    found: "{n} found | {n} found", group: "Group", groupOf: "all members of the group", you: "you", role: "Role", roleOf: "Role of {name}", until: "Ends", ends: { never: "Never", day: "After a day", week: "After a week", month: "After 30 days", quarter: "After 90 days" }, note: "Note (optional)", noteHint: "They see it beside what you share",
    give: "Give access", given: "{name} has access now.", changed: "The role is changed.", list: "Who has access", owner: "Owner: everything in this drive", take: "Take away: {name}", takeShort: "Take away", takeTitle: "Take access away?", takeText: "“{name}” loses the role at once, and with it what only this role gives.", taken: "The role is taken away.",
    leave: "Leave", leaveTitle: "Leave?", leaveText: "You lose your role here at once. Only somebody who manages this can give it back.", left: "You have left.", endsAt: "until {when}", noEnd: "no end",
    from: { here: "given here", space: "member of the space", folder: "from the folder “{name}”", above: "from a folder above" }, overridden: "does not count here: a nearer role decides", idle: "gives nothing for now: the space shares with its members alone",
    rights: { viewer: "may look and download", uploader: "may send files, and sees none", editor: "may add, change and delete", manager: "may do everything and give access", none: "is shut out of what a folder above gives" },
    yours: "Your role: {role}", onlyManagers: "Managers decide who has access.", alone: "Nobody else has access.", busy: "Too many searches. Wait a moment.",
  },
  shared: {
    tabs: "What is shared", links: "Links", withIntro: "Folders and files that others share with you by name. What you call them, and what you hide, nobody else sees.", withEmpty: "Nothing is shared with you", withEmptyText: "When somebody shares a folder or file with you by name, it is here.",
    byIntro: "Folders and files of your drive, and who has a role there. What others put there counts towards your storage.", byEmpty: "You share nothing by name", byEmptyText: "Choose a file or folder and “Share with people”.",
    by: "shared by {name}", inSpace: "in the space “{name}”", called: "called “{name}” by its owner", through: "through the group “{name}”", hidden: "hidden", hide: "Hide", show: "Show", showHidden: "Show what I have hidden", newName: "Your name for it", renamed: "You call it by another name now.", hid: "It is hidden.", shown: "It is in the list again.",
  },
  spaceSettings: {
    space: "Space", name: "Name of the space", files: "Show the files", saved: "Saved.", quotaText: "Administrators decide how much there may be.", archive: "Archive", archiveTitle: "Archive this space?", archiveText: "Everything in it can be read from then on, and nothing changed.", archivedBack: "Administrators can bring it back.",
    members: "Members", membersText: "A member has a role in the whole space. A folder in it can give somebody more, less or nothing.",
    rules: "Rules", links: "Links are given out by", outward: "Shared with others by", trashDays: "Days in the trash", versionDays: "Days for old versions", who: { editors: "Editors and managers", managers: "Managers", nobody: "Nobody" },
    linksText: "Links of those who may not give them out do not open.", outwardText: "Others are people who are not members. With nobody, what was shared with them before gives them nothing.", daysText: "0: as long as the server keeps the trash.", versionsText: "The last five versions of a file are always kept. 0: as long as the server keeps the others.",
  },
  activity: {
    intro: "What was done in your drive, and by whom.", inSpace: "What was done in the space “{name}”, and by whom.", atNode: "what was done to it, and to what lies in it directly", empty: "Nothing has happened yet", emptyText: "What is added, changed, shared or deleted is listed here.", nobody: "SmartDrive or a visitor", somebody: "Somebody", takenBack: "It is taken back.",
    whole: "the whole space", kind: "What is listed", kinds: { all: "Everything but uploads and downloads", files: "Files and folders", people: "Roles and the space", links: "Links", documents: "Documents", exports: "Exports", webhooks: "Webhooks", account: "Logins, tokens and settings", uploads: "Uploads", downloads: "Downloads" },
    back: { trash: "Restore", version: "Restore the content before", move: "Move back" }, heads: { api: "page or program", tus: "tus", draft: "resumable upload", dav: "by WebDAV", nextcloud: "by a Nextcloud app", link: "by a link" },
    did: {
      node: {
        created: "added “{name}”", copied: "made “{name}” by copying", changed: "changed “{name}”", moved: "moved “{name}”", renamed: "renamed “{was}” to “{name}”", movedRenamed: "moved “{was}” and called it “{name}”", trashed: "moved “{name}” to the trash", restored: "restored “{name}” from the trash",
        shown: "finished copying “{name}”", doomed: "began to delete “{name}” for good", deleted: "deleted “{name}” for good", left: "handed “{name}” over", arrived: "got “{name}”, which was handed over",
      },
      grant: { set: "gave {whom} the role {role} in “{name}”", setGroup: "gave the group {whom} the role {role} in “{name}”", taken: "took the role of {whom} in “{name}” away", takenGroup: "took the role of the group {whom} in “{name}” away" },
      space: { created: "made the space “{name}”", changed: "changed the space “{name}”" },
      drive: { handed: "began to hand all files of {name} over to {whom}" },
      share: { created: "made a link for reading", changed: "changed a link for reading", ended: "ended a link for reading" },
      collect: { created: "made a link for sending", changed: "changed a link for sending", ended: "ended a link for sending" },
      webhook: { created: "made the webhook “{name}”", changed: "changed the webhook “{name}”", disabled: "switched the webhook “{name}” off", deleted: "deleted the webhook “{name}”" },
      upload: { begun: "began an upload", parked: "put an upload aside that had gone quiet", resumed: "went on with an upload", done: "finished an upload", gone: "ended an upload" },
      download: { begun: "downloaded “{name}”", often: "downloaded “{name}” ({times}×)", many: "downloaded many more files ({times})" },
      bundle: { sealed: "took a bundle in" }, document: { accepted: "accepted a document", conflict: "found a document that contradicts another", rejected: "rejected a document", allowed: "accepted the rejected document {name}" },
      login: { created: "logged in", failed: "tried to log in with a wrong password ({times}×)", ended: "ended a login", endedAll: "ended all other logins" },
      identity: { connected: "can log in by the identity provider {name} now", ended: "can no longer log in by the identity provider {name}" },
      token: { created: "made the token or app password “{name}”", ended: "revoked the token or app password “{name}”" },
      password: { changed: "set another password, which ended the other logins" }, setting: { changed: "changed the setting {name} of the server" },
      notice: { told: "told you something: see Notices" },
      export: { sealed: "completed an export", failed: "ended an export that failed", ending: "will delete an export soon", late: "is still preparing an export" },
    },
  },
  notices: {
    empty: "No notices", emptyText: "You are told here when something is shared with you, a role changes, an export is ready or files come by your link.", readAll: "Mark all as read", readOne: "Mark as read", fresh: "Unread", somebody: "Somebody", something: "something", until: " (until {when})",
    how: "How you are told", kinds: { share: "Shared with me", role: "My roles change or end", space: "I join a space", group: "Groups", export: "Exports", collect: "Files by a collect link", quota: "Storage is nearly full", webhook: "A webhook was switched off", operation: "Work on many files failed in part" },
    channels: { off: "Off", page: "Page", mail: "Mail" },
    mail: { address: "Mail goes to", none: "No mail without an address.", again: "Send another code", code: "Code", confirm: "Confirm", confirmed: "Mail goes to this address now.", states: { asked: "A code of six digits is on its way to this address.", confirmed: "Confirmed.", refused: "The mail server of this address has refused several mails. Save it again to go on." } },
    gone: { share: "Something was shared with you, and is not any more.", role: "A role of yours changed, at something that you do not see any more.", space: "You were a member of a space.", group: "You were in a group.", export: "An export that is not yours any more.", collect: "Files came by a collect link, into a folder that you do not see any more.", quota: "A space that you managed was nearly full.", webhook: "A webhook of a place that you managed was switched off.", operation: "Work on many files failed in part." },
    says: {
      share: { given: "{by} shared “{name}” with you: {role}{until}", more: "More was shared with you or changed for you than is told one by one: see “Shared with me”" }, space: { given: "{by} made you a member of the space “{name}”: {role}{until}" },
      role: { changed: "{by} changed your role at “{name}”: {role}{until}", taken: "{by} took your role at “{name}” away", ending: "Your role at “{name}” ends soon: {role}{until}", ended: "Your role at “{name}” has ended" },
      group: { given: "{by} added you to the group “{name}”", taken: "{by} removed you from the group “{name}”" },
      export: { ready: "The export “{name}” is ready{until}", failed: "The export “{name}” has failed", ending: "The export “{name}” will be deleted soon{until}", late: "The export “{name}” takes longer than expected", skipped: "The scheduled export “{name}” was skipped: its source is missing or cannot be used" },
      collect: { arrived: "Files have come into “{name}” by a collect link" }, quota: { full: "Storage is nearly full" }, webhook: { disabled: "The webhook “{name}” was switched off" },
      operation: { failed: "Work on many files has ended: {n} of them failed" },
    },
  },
  hooks: {
    intro: "Addresses that are sent what happens in your drive: each event once it has happened, in order, signed.", introSpace: "Addresses that are sent what happens in the space “{name}”: each event once it has happened, in order, signed.",
    create: "New webhook", change: "Change the webhook", empty: "No webhooks", emptyText: "A webhook tells another program what happens here, as soon as it has.", url: "Address (https)", name: "Name (optional)", types: "What it is told", all: "everything but uploads",
    of: { node: "Files and folders", grant: "Roles", space: "The space", share: "Links for reading", collect: "Links for sending", bundle: "Bundles", document: "Documents", export: "Exports", upload: "Uploads", webhook: "Webhooks", notice: "Notices", login: "Logins", token: "Tokens", identity: "Identity provider", password: "Passwords", setting: "Settings of the server" },
    secret: "The secret, shown this once", secretText: "Each event is signed with it (Standard Webhooks). Give it to the program that receives them.",
    states: { active: "active", disabled: "switched off" }, disable: "Switch off", enable: "Switch on", deleteTitle: "Delete this webhook?", deleteText: "Nothing is sent to the address any more.",
    rotate: "New secret", rotateText: "For a day, events are signed with the new secret and with the old one: give the new one to the program that receives them within that time.", rotateDo: "Make it", oldUntil: "the old secret signs until {when}",
    replay: "Send the last day again", replayText: "All that has happened within the last 24 hours is sent again, with the same ids.", replayDo: "Send", replayed: "It is being sent.",
    never: "nothing was sent yet", fine: "last sent {when}", failed: "failed {when}: {why} ({n} in a row).", next: "Next attempt {when}.", skipped: "{n} events refused by the receiver and passed over",
    why: { status: "it answered {n}", timeout: "no answer within 10 seconds", unreachable: "it cannot be reached", address: "the address is not allowed" },
    reasons: { failing: "Switched off because it failed for three days.", right: "Switched off because whoever made it may not any more.", secret: "Switched off because its secret cannot be read any more: make it again.", gone: "Switched off because the receiver said that it is gone." },
  },
};

export default messages;
export type TeamMessages = typeof messages;
