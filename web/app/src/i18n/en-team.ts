// Texts of sharing with people, of spaces and of what is shared. They are not loaded with the first page.
const messages = {
  people: {
    title: "Who has access to “{name}”", add: "Give access", who: "Person or group", whoHint: "The first letters of a name, two at least", searching: "Searching…", nobody: "Nobody with this name, or they have access already.", many: "There may be more: write more of the name.",
    found: "{n} found | {n} found", group: "Group", groupOf: "all members of the group", you: "you", role: "Role", roleOf: "Role of {name}", until: "Ends", ends: { never: "Never", day: "After a day", week: "After a week", month: "After 30 days", quarter: "After 90 days" }, note: "Note (optional)", noteHint: "They see it beside what you share",
    give: "Give access", given: "{name} has access now.", changed: "The role is changed.", list: "Who has access", owner: "Owner: everything in this drive", take: "Take away: {name}", takeShort: "Take away", takeTitle: "Take access away?", takeText: "“{name}” loses the role at once, and with it what only this role gives.", taken: "The role is taken away.",
    leave: "Leave", leaveTitle: "Leave?", leaveText: "You lose your role here at once. Only somebody who manages this can give it back.", left: "You have left.", endsAt: "until {when}", noEnd: "no end",
    from: { here: "given here", space: "member of the space", folder: "from the folder “{name}”", above: "from a folder above" }, overridden: "does not count here: a nearer role decides",
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
  },
};

export default messages;
export type TeamMessages = typeof messages;
