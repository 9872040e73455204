// The objects of docs/api.md that the page uses.
import type { Role } from "./spaces";

export interface Node {
  id: string;
  parent_id: string | null;
  name: string;
  path: string;
  type: "file" | "folder";
  size: number;
  mime: string;
  mtime: string;
  created_at: string;
  updated_at: string;
  trashed_at: string | null;
  rev: number;
  digests: Record<string, string>;
  role?: Role; // what the user is there; of one node that was asked for, outside of one's own drive
}

export interface Version {
  id: string;
  size: number;
  mime: string;
  mtime: string;
  created_at: string;
  current: boolean;
  digests: Record<string, string>;
}

export interface Me {
  user: { id: string; name: string; admin: boolean; must_change_password?: boolean };
  account: { id: string };
  usage: { used: number; total: number | null };
  pictures?: string[]; // kinds of files, besides images, that the server makes thumbnails of
}

export interface Preferences {
  language?: "zh-CN" | "en";
  theme?: "light" | "dark" | "auto";
  view?: "list" | "grid";
}

export interface Operation {
  id: string;
  state: string;
  done: number;
  total: number | null;
  error: string;
}

export interface OpenUpload {
  id: string;
  state: "active" | "parked" | "sealing" | "done";
  path: string;
  size: number | null;
  part_size: number;
  parts: number;
  received: [number, number][];
  reserved: number;
  expires_at: string;
}

export interface OwnedUpload extends OpenUpload {
  account_id: string;
  user_id: string;
  held: number;
  created_at: string;
  last_active: string;
}

export interface Share {
  id: string;
  token: string;
  url: string;
  node: { id: string; name: string; type: "file" | "folder"; size: number };
  code: string | null;
  expires_at: string | null;
  max_downloads: number | null;
  downloads: number;
  views: number;
  created_at: string;
  state: "open" | "expired" | "used-up" | "gone";
}

export interface Collect {
  id: string;
  token: string;
  folder: { id: string; name: string };
  title: string;
  message: string;
  expires_at: string | null;
  max_bytes: number | null;
  max_file: number | null;
  files: number;
  received: number;
  arriving: number;
  left: number | null;
  created_at: string;
  state: "open" | "expired" | "full" | "gone";
}

/** A file that came, or comes, through a collect link. */
export interface Collected {
  upload: string;
  sender: string;
  name: string;
  size: number;
  state: "open" | "done";
  created_at: string;
}

export interface Session {
  id: string;
  name: string;
  created_at: string;
  seen_at: string;
  expires_at: string;
  current: boolean;
}

export interface Token {
  id: string;
  name: string;
  scopes: string[];
  heads: string[];
  created_at: string;
  seen_at: string;
  expires_at: string | null;
}

export interface User {
  id: string;
  account_id: string;
  name: string;
  admin: boolean;
  state: "active" | "disabled";
  total: number | null;
  created_at: string;
  last_login_at: string | null;
  must_change_password: boolean;
}

export interface Ledger {
  finished: number;
  unfinished: number;
  reserved: number;
  total: number | null;
}

export interface Letter {
  id: string;
  account_id?: string;
  topic: string;
  consumer: string;
  code: string;
  error: string;
  failures: number;
  died_at: string;
  event: unknown;
}

export interface Finding {
  id: string;
  at: string;
  invariant: string;
  subject: string;
  expected: string;
  found: string;
  repaired: boolean;
}

export interface Horizon {
  minute: number;
  hour: number;
  day: number;
  more: number;
  leased: number;
}

export interface Status {
  installation: string;
  mode: string;
  restored: boolean;
  instances: { generation: number; host: string; roles: string; version: string; joined_at: string; seen_at: string; alive: boolean }[];
  leases: { name: string; generation: number; epoch: number; taken_at: string }[];
  timers: Record<string, Horizon>;
  consumers: { consumer: string; topic: string; behind: number; waiting: number }[];
  unsent?: { records: number; oldest_ms: number };
  failing: string[];
}

/** The figures of a day, in UTC; free is absent where the store does not know. */
export interface GrowthDay {
  day: string;
  at: string;
  accounts: number;
  finished: number;
  unfinished: number;
  free?: number;
}

/** A point on a timer's way. */
export interface TimerStep {
  gen: number;
  step: string;
  began: string;
  at: string;
  delivery: number;
  instance: string;
  reason?: string;
  push_backs?: number;
  last_push_back?: string;
  shard?: string;
  slice?: string;
}

/** A timer as the queue knows it, if it is pending, and its way. */
export interface Timer {
  key: string;
  pending: boolean;
  trace: TimerStep[];
  gen: number;
  first?: string;
  last?: string;
  due?: string;
  indexed?: string;
  leased: boolean;
  attempt: number;
  push_backs: number;
  last_push_back?: string;
  delivery: number;
  account_id?: string;
  shard?: string;
  slice?: string;
  holder?: string;
}
