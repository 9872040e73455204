// Moving an installation to other engines.
import { call, listAll } from "./client";

export interface Place {
  db: string;
  blobs: string;
}

export interface GateCheck {
  name: string;
  ok: boolean;
  detail: string;
}

export interface Migration {
  state: "none" | "running";
  phase: number; // 0 to 5
  percent: number;
  paused: boolean;
  from: Place;
  to: Place;
  progress: {
    rows: { done: number; total: number; rate: number };
    blobs: { done: number; total: number; bytes: number; rate: number };
    eta_seconds: number;
  };
  lag: number;
  mismatches: number;
  checksum: { state: string; equal: boolean; at: string; rows?: number; unequal?: number } | null;
  instances: { id: number | string; host?: string; epoch: number; why?: string; seen_at: string }[];
  gate: GateCheck[];
  epoch?: number;
  reads?: { new: number; fallback: number; compared: number; skipped: number };
  writes?: { second: number; deferred: number; waited: number; pause_ms: number };
  pace: Pace;
  old: OldSide | null; // before phase 5 there is none
  begun_at?: string;
  changed_at?: string;
}

/** Bounds of filling in, copying and comparing; 0: none. */
export interface Pace {
  rows_per_second: number;
  bytes_per_second: number;
}

/** What is left of the side that was left. */
export interface OldSide {
  state: "kept" | "dropping" | "dropped";
  kept_until: string;
  rows: boolean; // they are gone
  contents: { removed: number; bytes: number; kept: number; worst?: string; ended: boolean };
  gate: GateCheck[];
}

export interface Mismatch {
  id: number | string;
  source: string;
  subject: string;
  ours: string;
  theirs: string;
  found_at: string;
  explained: boolean;
  explained_by?: string;
  reason?: string;
}

export interface Report {
  ok: boolean;
  checks: GateCheck[];
  rows: number;
  tables: number;
  seconds: number;
}

export interface Target {
  to_db?: string;
  to_blobs?: string;
  to_redis?: string;
}

const at = "/admin/migration";

export const migration = () => call<Migration>("GET", at);
export const tryMigration = (to: Target) => call<Report>("POST", at, { body: { ...to, dry_run: true } });
export const startMigration = (to: Target) => call<Report>("POST", at, { body: to });
export const setPercent = (percent: number) => call("POST", `${at}/percent`, { body: { percent } });
export type Step = "verify" | "advance" | "pause" | "resume" | "rollback" | "finish" | "drop";
/** Of advance and rollback, phase is the one in which this was decided: in another one nothing happens. */
export const step = (how: Step, phase: number) => call("POST", `${at}/${how}`, how === "advance" || how === "rollback" ? { body: { phase } } : {});
export const setPace = (pace: Pace) => call("POST", `${at}/rate`, { body: pace });
export const dropOld = (early: boolean) => call("POST", `${at}/drop-old`, { body: { early } });
export const explainMismatch = (id: number | string, reason: string) => call("POST", `${at}/mismatches/${id}/explain`, { body: { reason } });
export const mismatches = () => listAll<Mismatch>(`${at}/mismatches`, {}, 200);
