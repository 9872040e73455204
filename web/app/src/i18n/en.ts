const messages = {
  nav: {
    files: "Files", search: "Search", searchHint: "Search files and folders", shares: "Shares", collects: "File requests", trash: "Trash",
    usage: "Storage", settings: "Settings", admin: "Administration", users: "Users", allUploads: "Open uploads", system: "System", migration: "Migration", documents: "Documents", exports: "Exports",
    menu: "Menu", main: "Main navigation", home: "SmartDrive, files", skip: "Skip to content", account: "Account of {name}",
  },
  theme: { toLight: "Switch to light", toDark: "Switch to dark", light: "Light", dark: "Dark", auto: "As the system" },
  login: { wrong: "The name or the password is wrong.", locked: "Too many failed attempts. Try again in {n} minute. | Too many failed attempts. Try again in {n} minutes.", title: "Log in", name: "Name", password: "Password", in: "Log in", out: "Log out" },
  nothing: { title: "There is nothing here", text: "The address may be wrong, or what was here is gone.", home: "Go to the files" },
  error: { page: "This page cannot be shown", network: "The server cannot be reached. Check the connection and try again.", status: "The server answered {status}." },
  do: {
    cancel: "Cancel", close: "Close", create: "Create", open: "Open", download: "Download", export: "Export", share: "Share", rename: "Rename", move: "Move", copy: "Copy",
    moveTo: "Move to…", copyTo: "Copy to…", details: "Details", trash: "Move to trash", delete: "Delete", restore: "Restore", undo: "Undo", paste: "Paste",
    reload: "Reload", retry: "Try again", upload: "Upload", save: "Save", change: "Change", revoke: "Revoke", copied: "Copied", copyOf: "Copy: {what}",
    copyByHand: "The browser does not allow copying here: the text is selected, press Ctrl+C.", more: "Load more",
  },
  fault: {
    empty: "A name is needed.", slash: "A name cannot contain “/”.", dots: "This name is reserved.", long: "The name is too long.",
    size: "Write a size such as 500 MB or 2 GB.", passwords: "The two passwords differ.", short: "At least 10 characters.",
  },
  files: {
    exported: "The export is being collected.",
    selectAll: "Select all that is in here", renamed: "Renamed to “{name}”.", chosenAll: "All {n} selected", name: "Name", size: "Size", changed: "Modified", select: "Select", selectOne: "Select {name}", actions: "Actions", actionsOf: "Actions for {name}",
    newFolder: "New folder", folderName: "Name of the folder", newName: "New name", newFolderIn: "Name of the new folder in {name}", into: "Into:", folders: "Folders",
    where: "Path", tools: "Tools", clear: "Clear the selection", chosen: "{n} selected", dragging: "{n} selected", listOf: "Contents of {name}",
    count: "{n} item | {n} items", countMore: "{n} item, loading… | {n} items, loading…", sort: "Sort by", asList: "Show as list", asGrid: "Show as grid",
    sorts: { name: "Name", size: "Size", mtime: "Modified", type: "Type", folder: "Folder" },
    emptyDrive: "Your drive is empty", emptyFolder: "This folder is empty", emptyText: "Drop files or folders here, or choose them.",
    faulty: "This folder cannot be shown", trashedOne: "“{name}” is in the trash.",
    moved: "{n} moved to “{folder}”.", copied: "{n} copied to “{folder}”.", moveTitle: "Move {n} item | Move {n} items", copyTitle: "Copy {n} item | Copy {n} items", moveHere: "Move here", copyHere: "Copy here",
    pasteHere: "Paste {n} here", taken: "The name is taken", takenText: "“{name}” is there already ({n} in all). Keep both, with a number added to the name?", keepBoth: "Keep both",
  },
  details: {
    about: "Details", contents: "Contents", filesIn: "{n} file | {n} files", foldersIn: "{n} folder | {n} folders", andMore: "and more", versions: "Versions", where: "Folder", bytes: "{n} bytes", mime: "Type", created: "Added", current: "current",
    restored: "The version is the current one again.",
  },
  preview: {
    none: "This file can only be downloaded.", failed: "The picture cannot be shown.", cannotPlay: "This browser cannot play the file. It can be downloaded.",
    noPdf: "This browser cannot show the PDF here. It can be downloaded.", loading: "Loading…", empty: "The file is empty.", source: "Source",
    encoding: "Encoding", damaged: "What is in it cannot be told: the file is damaged, or not what its name says.", entries: "{n} entry | {n} entries", entriesMore: "The first {n} entry | The first {n} entries",
    encodings: { "utf-8": "UTF-8", "gb18030": "GB 18030 (Chinese)", "big5": "Big5 (Chinese)", "shift_jis": "Shift JIS (Japanese)", "euc-jp": "EUC-JP (Japanese)", "euc-kr": "EUC-KR (Korean)", "windows-1252": "Windows-1252 (Western)", "windows-1251": "Windows-1251 (Cyrillic)", "utf-16le": "UTF-16 LE", "utf-16be": "UTF-16 BE" },
    zoom: "Size of the picture", larger: "Larger", smaller: "Smaller", whole: "Fit to the window", before: "Previous file", next: "Next file",
  },
  upload: {
    panel: "Transfers", files: "Upload files", folder: "Upload a folder", dropHere: "Drop to upload into “{folder}”",
    standing: "{n} unfinished upload | {n} unfinished uploads", running: "{n} file on its way | {n} files on their way", allDone: "{n} file uploaded | {n} files uploaded", offline: "Offline: {n} file waits | Offline: {n} files wait", comparing: "Comparing {n} file | Comparing {n} files", troubled: "{n} file needs attention | {n} files need attention",
    eta: "{time} left", fold: "Fold", unfold: "Unfold", clear: "Clear finished", pauseAll: "Pause all", resumeAll: "Resume all", retryAll: "Retry all",
    waiting: { queue: "Waiting", offline: "Offline: resumes automatically", retry: "Connection lost: trying again", conflict: "Waiting for your answer", login: "Please log in again" },
    hashing: "Comparing {done} / {size}", verifying: "All sent; the server is checking it", instant: "{size} · instant, the server had it", done: "{size} · done",
    keptUntil: "kept until {when}", parked: { file: "Unfinished: choose the file again to resume", permission: "Unfinished: resume?" },
    noSpace: { missing: "Not enough space: {missing} more are needed", quota: "Not enough space in your account", disk: "The server's disk is full", owed: "Not enough space yet: {owed} that were deleted are still on the server's disk. Try again in a quarter of an hour" },
    failed: "Failed ({why})",
    failures: {
      "file-changed": "The file has changed since the upload began", "file-unreadable": "The browser can no longer read the file",
      "gave-up": "The server did not answer for a long time", damaged: "The data was damaged in transit", deleted: "The upload was cancelled on the server",
      proxy: "A proxy between here and the server refused it",
    },
    paused: "Paused at {done} / {size}", skipped: "Skipped", cancelled: "Cancelled",
    act: { pause: "Pause {name}", resume: "Resume {name}", retry: "Try {name} again", cancel: "Cancel {name}", remove: "Remove {name} from the list" },
    acts: { pause: "Pause", resume: "Resume", retry: "Try again", cancel: "Cancel", remove: "Remove" },
    otherFile: "That is another file: its size differs.",
    conflict: {
      there: "In the drive", coming: "To be uploaded", sameSize: "Both have the same size.", larger: "The new file is {size} larger.", smaller: "The new file is {size} smaller.", newer: "It was changed later.", older: "It was not changed later.",
      title: "The name is taken", text: "“{path}” is there already. What should happen with the file of {size}?", forAll: "Do the same for all others",
      skip: "Skip", rename: "Keep both", replace: "Replace",
    },
  },
  zip: { large: "A zip can hold at most {n} files. Download the folders one by one.", many: "At most {n} entries can be chosen for one zip. Choose fewer, or the folder that they are in.", none: "There are no files in what you chose.", busy: "The server is making other zips just now. Try again in a minute.", preparing: "Preparing the download.", missing: "{n} file could not be read and is not in the zip: err.txt in it says which. | {n} files could not be read and are not in the zip: err.txt in it lists them." },
  search: {
    empty: "Nothing found", emptyText: "No name here contains “{q}”.", results: "Results for “{q}”", more: "{n} and more", in: "Where", everywhere: "Everywhere",
    type: "Kind", any: "Any kind", type_file: "Files", type_folder: "Folders", ext: "Extension", size: "Size", sizes: { any: "Any size", small: "Under 1 MB", middle: "1 to 100 MB", large: "Over 100 MB" },
    when: "Modified", whens: { any: "Any time", day: "Last 24 hours", week: "Last 7 days", month: "Last 30 days", year: "Last year" }, hint: "What are you looking for?",
    hintText: "Enter part of a name in the field above.", goTo: "Show in folder",
  },
  share: {
    all: "Select all", revokeMany: "Delete {n} links", title: "Share “{name}”", code: "Extraction code", codeAuto: "Random", codeOwn: "My own", codeNone: "None", codeHint: "4 to 16 letters or digits", expiry: "Valid for",
    days: "{n} day | {n} days", never: "No limit", limit: "Limit the downloads", unlimited: "Unlimited", create: "Create link", link: "Link", both: "Link and code to send",
    message: "“{name}”: {url}", messageCode: "“{name}”: {url} Extraction code: {code}", until: "Valid until {when}", forever: "Valid until it is deleted", atMost: "at most {n} download | at most {n} downloads",
    others: "There is {n} other link to this. | There are {n} other links to this.", noneOfThis: "There are no links to this.", empty: "Nothing is shared", emptyText: "Choose a file or folder and “Share” to make a link.",
    intro: "Anyone with a link, and its code, can list and download.", downloads: "Downloads", views: "Views", created: "Created", state: "State", what: "File", expires: "Expires",
    states: { open: "open", expired: "expired", "used-up": "used up", gone: "file gone" }, revokeTitle: "Delete this link?", revokeText: "The link stops working. The file stays.",
    revoked: "The link is deleted.", show: "Show link", change: "Change terms", saved: "Changed.", noCode: "none", keep: "Keep as it is",
  },
  collect: {
    create: "Request files", into: "Request files into “{name}”", title: "Title", message: "Message to those who send (optional)", maxAll: "Total size limit", maxFile: "Size limit per file", noLimit: "no limit",
    charged: "What is sent counts towards your storage, up to {all}. Senders do not see each other's files.", madeText: "Anyone with the link can send files into the folder, but cannot see what is in it.",
    empty: "No file requests", emptyText: "A file request is a link through which anybody can send files into one of your folders.", intro: "Links through which people without an account send you files.",
    received: "Received", state: "State", revokeTitle: "Close this request?", revokeText: "Nobody can send files through it any more. What was sent stays.", revoked: "The request is closed.", choose: "Choose the folder", chooseThis: "Choose this folder",
    who: "Received files", nobody: "No files received yet.", anonymous: "no name", arriving: "arriving", folder: "Folder", files: "{n} file | {n} files", states: { open: "open", expired: "expired", full: "full", gone: "folder gone" },
  },
  operation: {
    list: "What the server is working on", progress: "{done} of {total}", failures: "{n} failed | {n} failed", failed: "What failed", goOn: "Continue", gone: "no longer there",
    cancelled: "Cancelled: {n} of {total} done.", nothing: "Nothing could be done.",
    running: {
      trash: "Moving {n} item to the trash… | Moving {n} items to the trash…", restore: "Restoring {n} item… | Restoring {n} items…", delete: "Deleting {n} item for good… | Deleting {n} items for good…",
      move: "Moving {n} item… | Moving {n} items…", copy: "Copying {n} item… | Copying {n} items…", unshare: "Deleting {n} link… | Deleting {n} links…", subtree: "Working on a folder…", undo: "Undoing…",
    },
    done: {
      trash: "{n} item is in the trash. | {n} items are in the trash.", restore: "{n} item restored. | {n} items restored.", delete: "{n} item deleted for good. | {n} items deleted for good.",
      move: "{n} item moved. | {n} items moved.", copy: "{n} item copied. | {n} items copied.", unshare: "{n} link deleted. | {n} links deleted.", subtree: "Done.", undo: "Undone: {n} item is as before. | Undone: {n} items are as before.",
    },
  },
  trash: {
    intro: "What is here counts towards your storage until it is deleted for good.", empty: "The trash is empty", emptyText: "What you delete comes here first and can be restored.", emptyNow: "Empty trash", emptyTitle: "Empty the trash?",
    emptyAsk: "Everything in the trash is deleted for good, and its space is freed.", emptied: "The trash is empty.", deleteTitle: "Delete for good?", deleteText: "“{name}” cannot be restored afterwards. | {n} items cannot be restored afterwards.",
    destroy: "Delete for good", when: "Deleted", frees: "{size} can be freed",
  },
  usage: {
    space: "Storage", usedOf: "{used} of {total} used", usedUnlimited: "{used} used", fullness: "{n} percent full", title: "Storage", free: "{free} free", finishedOnly: "Finished files only, with the trash and older versions. Unfinished uploads are listed below.",
    uploads: "My open uploads", uploadsText: "To resume one, choose the same file again in the same folder. Uploads that are not resumed are removed automatically.", none: "No open uploads.", file: "File", progress: "Arrived", state: "State", until: "Kept until",
    states: { active: "running", parked: "paused", sealing: "being checked", done: "done" }, cancelTitle: "Cancel this upload?", cancelText: "What has arrived of “{name}” is deleted.", keep: "Keep", cancelled: "The upload is cancelled.", freeUp: "Free space", freeUpText: "Empty the trash, or sort files by size and delete what you do not need.", toTrash: "To the trash", biggest: "Find large files", unlimited: "no limit",
    continue: "Continue",
  },
  settings: {
    look: "Appearance", language: "Language", theme: "Colours", view: "Files are shown as", list: "List", grid: "Grid", password: "Password", current: "Current password", new: "New password", again: "New password again", passwordText: "All other logins and all tokens become invalid.",
    passwordDone: "The password is changed.", wrongPassword: "The current password is wrong.", tokens: "Access tokens", tokensText: "For programs that act for you. A token is shown once.", tokenName: "Purpose", scopes: "Permissions", scope: { read: "read", write: "change", admin: "administer" }, expiry: "Valid for", newToken: "New token", tokenMade: "The token, shown this once", noTokens: "No tokens.", forWhat: "For", kind: { native: "programs and scripts (API)", app: "an app with name and password (app password)" }, head: { native: "API", dav: "WebDAV", nextcloud: "Nextcloud apps" }, appUser: "User name", appServer: "Server address", appScan: "Scan this with the phone app to log in:",
    lastUsed: "last used {when}", revokeTitle: "Revoke “{name}”?", revokeText: "Programs that use it stop working.", sessions: "Logins", sessionsText: "Where you are logged in.", thisOne: "this one", end: "End", never: "no limit", unnamed: "Unknown client",
  },
  grant: {
    title: "Connect an app", asks: "An app wants to access your files", calls: "It calls itself:", as: "You are logged in as {name}.", text: "It gets an app password of its own, with which it can read and change everything in your drive. You can revoke it in the settings at any time. Allow this only if you have just started connecting this app yourself.", allow: "Allow", granted: "The app is connected", grantedText: "You can close this window and go back to the app.", gone: "This request is no longer valid", goneText: "Start again in the app.", phone: "mobile app",
  },
  visitor: {
    from: "Shared by {owner}", needsCode: "An extraction code is needed", codeText: "Ask the person who sent you the link for the code.", code: "Extraction code", open: "Open", gone: "This link is no longer valid", goneText: "It has expired, was used up, or what it led to is gone.", until: "Valid until {when}", empty: "This folder is empty", saveAll: "Download all", saveChosen: "Download ({n})", tooManyChosen: "At most {n} can be chosen for one zip. Choose none to download everything.", zipFaults: { empty: "There are no files in it.", late: "The page was open for too long. Reload it.", gone: "This link is no longer valid, or its downloads are used up.", large: "There are more files than one zip may hold. Download its folders one by one.", busy: "Too many people are downloading just now. Try again in a minute." }, items: "{n} item | {n} items", root: "All files", wrong: "The code is wrong.",
    collectBy: "{owner} asks for files", sender: "Your name (optional)", start: "Choose files", more: "Add files", drop: "or drop files or folders here", left: "{left} left", maxFile: "each file up to {size}", private: "Only {owner} sees what you send.", resume: "If it is interrupted, open the link again and choose the same files: they go on where they stopped.", closed: "This file request is closed", thanks: "Everything has arrived. Thank you!",
  },
};

export default messages;
export type Messages = typeof messages;
