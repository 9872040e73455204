/** The words of the library: what an upload is, how it stands, what may be configured. No code. */

/** Digests maps an algorithm ("blake3", "sha256", "sm3", "sha1", "md5") to lower-case hex. */
export type Digests = Partial<Record<"blake3" | "sha256" | "sm3" | "sha1" | "md5", string>>;

/** Conflict says what the server does when a name is taken. */
export type Conflict = "fail" | "rename" | "replace";

/** Node is a file or a folder as the API shows it. */
export interface Node {
  id: string;
  parent_id: string;
  name: string;
  path: string;
  type: "file" | "folder";
  /** bytes */
  size: number;
  mime: string;
  mtime: string;
  digests: Digests;
  [more: string]: unknown;
}

/** OpenUpload is an upload as the API shows it. */
export interface OpenUpload {
  id: string;
  /** verifying: as active, and done by itself when the answer to the challenge is right; waiting: earlier servers had it, for a file that tus makes of several uploads; nothing can be sent to it */
  state: "active" | "parked" | "verifying" | "waiting" | "sealing" | "done" | "gone";
  path: string;
  /** bytes; null while it is not known */
  size: number | null;
  /** bytes; every part has as many, but the last */
  part_size: number;
  parts: number;
  /** numbers of parts, both ends included; empty in lists */
  received: [number, number][];
  reserved: number;
  expires_at: string;
  challenge?: Challenge | null;
  /** what happens when the name is taken, as the upload was told; absent: the server does not say */
  conflict?: Conflict;
  node?: Node | null;
}

/** Challenge asks for proof that the client has the content that it claims. */
export interface Challenge {
  /** 32 bytes in hex */
  nonce: string;
  /** offset and length in bytes */
  ranges: [number, number][];
  expires_at: string;
}

/** Why an item waits. */
export type WaitReason = "queue" | "offline" | "retry" | "conflict" | "login";

/** What a parked item needs before it can go on: the file picked again, or a click that gives leave to read it. */
export type Need = "file" | "permission";

/** Why an item has failed: a code of the API's problems, or one of the library's own. */
export type FailureCode = "file-changed" | "file-unreadable" | "gave-up" | "damaged" | "deleted" | "proxy" | "internal" | (string & {});

/**
 * State is what is true of an item now.
 *
 * ```
 * waiting ─► sending ◄─► waiting (offline, retry, conflict, login)
 *    ▲         │  └────► verifying ─► done
 *    │         ├───────► instant
 *  parked      ├───────► no-space, failed      (retry() goes back to waiting)
 *              └───────► paused, cancelled, skipped
 * ```
 */
export type State =
  | { kind: "waiting"; why: WaitReason; until?: number }
  /** Nothing is sent: the file is read to find out whether the server's parts are the same. */
  | { kind: "hashing"; bytes: number }
  /** bytes: of the file that are there or on their way; rate: bytes per second; eta: seconds, null while it is not known. */
  | { kind: "sending"; bytes: number; rate: number; eta: number | null }
  /** Everything is there; the server checks the digest and makes the file. */
  | { kind: "verifying" }
  /** The server had the content: nothing more was sent. */
  | { kind: "instant"; node: Node }
  | { kind: "done"; node: Node }
  /** An open upload that the server keeps and that nobody here is sending. */
  | { kind: "parked"; needs: Need; bytes: number | null; /** Until when, if nothing more comes. */ until: string }
  /**
   * missing: bytes that are lacking, null where the server does not say. owed: there would be room, but for so many bytes that were
   * deleted and are on the server's disk a while longer. What was sent is kept.
   */
  | { kind: "no-space"; missing: number | null; of: "quota" | "disk"; owed?: number }
  | { kind: "failed"; why: FailureCode; detail: string; retryable: boolean }
  | { kind: "paused"; bytes: number }
  | { kind: "skipped"; node?: Node }
  | { kind: "cancelled" };

export type StateKind = State["kind"];

/** The states that an item does not leave by itself. */
export const finalKinds: ReadonlySet<StateKind> = new Set<StateKind>(["instant", "done", "skipped", "cancelled"]);

/** ConflictQuestion is asked where a name is taken and nobody has said what is to happen then. */
export interface ConflictQuestion {
  itemId: string;
  path: string;
  size: number;
  file: File | null; // what is to be sent, to be shown beside what is there
}

/** ConflictAnswer: forAll holds for everything that is in the queue, and is not asked again until it is empty. */
export interface ConflictAnswer {
  action: "replace" | "rename" | "skip";
  forAll?: boolean;
}

/**
 * Auth says how requests are authenticated. A function is called for each request. user is the id of whom a page is about: what it
 * sends with the cookie of somebody else, who has logged in in another tab, the server refuses.
 */
export type Auth = { cookie: true; user?: () => string | undefined } | { token: string | (() => string | Promise<string>) };

/** Options of an Uploader. Only auth is needed. */
export interface UploaderOptions {
  auth: Auth;
  /** URL of the API, absolute or as the page sees it; default "/api/v1". */
  base?: string;
  /** Accept-Language of requests: the language of problems; default: the browser's. */
  language?: string;
  /** Requests with bytes at once over HTTP/1.1; default 4, of the 6 connections that a browser opens. */
  connections?: number;
  /** The same where the server speaks HTTP/2 or 3; default 8. */
  connectionsH2?: number;
  /** Bytes of a part, a power of two from 1 MiB; default: the server's choice. */
  partSize?: number;
  /** Files up to so many bytes go in one request; default 4 MiB. 0 makes every file an upload. */
  smallFile?: number;
  /** Files of up to 256 KiB go many in one request; default true. */
  together?: boolean;
  /** What each part is checked with on its way; default "crc32c". */
  check?: "crc32c" | "sha-256";
  /** Digests to claim besides BLAKE3; MD5 costs about as much again. */
  md5?: boolean;
  /** How long to go on, in ms, while nothing succeeds although the browser is online; default 15 minutes. */
  giveUp?: number;
  /** A request on which nothing moves for so long, in ms, is sent again; default 30 s. */
  stall?: number;
  /** Whether GET /nodes may be asked; false with a collect link. Small files then become uploads, whose id tells what became of them. */
  lookUp?: boolean;
  /** Leave the folders of what is added out: every file goes into the folder itself, as a collect link wants it; default false. */
  flat?: boolean;
  /** Remember file handles for the next visit, where the browser has them; default true. */
  remember?: boolean;
  /** What to do when a name is taken; without it an item fails with "name-taken". Asked one at a time. */
  onConflict?: (q: ConflictQuestion) => ConflictAnswer | Promise<ConflictAnswer>;
  /** Called once when the server no longer knows the user; true: log-in was renewed, go on. */
  onLogin?: () => boolean | Promise<boolean>;
}

/** AddOptions say where files go. */
export interface AddOptions {
  /** Absolute path of the folder in the drive, "/" is its root; missing folders are made. */
  folder: string;
  /** What to do when a name is taken; default: onConflict is asked. */
  conflict?: Conflict;
  /** The higher, the earlier; default 0. */
  priority?: number;
  /** Overrides the option of the same name. */
  flat?: boolean;
}

/** Pick is one file to be sent. */
export interface Pick {
  file: File;
  /** Path below the folder, such as "album/1.jpg"; default: the file's name. */
  path?: string;
  /** Where the browser has one: lets the next visit go on without asking. */
  handle?: FileSystemFileHandle;
}

/** Events of an Uploader. */
export interface Events {
  /** Items were added. */
  added: { items: readonly ItemView[] };
  /** An item's state is of another kind than before. */
  state: { item: ItemView; from: StateKind };
  /** Items moved on, at most 5 times a second; holds all that did. */
  progress: { items: readonly ItemView[]; total: Summary };
  /** An item has left the list. */
  removed: { item: ItemView };
  /** Nothing is left to do by itself. */
  idle: { total: Summary };
}

/** Summary is all items together. */
export interface Summary {
  items: number;
  finished: number;
  failed: number;
  /** bytes of all items that are not cancelled or skipped */
  size: number;
  /** of them, there or on their way */
  bytes: number;
  /** bytes per second */
  rate: number;
  /** seconds; null while it is not known */
  eta: number | null;
}

/** ItemView is what can be seen of one file on its way. */
export interface ItemView {
  readonly id: string;
  readonly name: string;
  /** Absolute path in the drive; after a rename the new one. */
  readonly path: string;
  readonly size: number;
  readonly priority: number;
  readonly state: State;
  /** The server's id, once there is one. */
  readonly uploadId: string | null;
  /** Bytes that went over the wire, sent again ones included. */
  readonly moved: number;
}
