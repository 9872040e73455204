// What the states of an upload are called, and how far each is.
import type { ItemView, State } from "@smartdrive/upload";
import { bytes, duration } from "@/format";

type Say = (key: string, args?: Record<string, unknown>) => string;

export const finalKinds: ReadonlySet<State["kind"]> = new Set(["done", "instant", "skipped", "cancelled"]);

/** How much of it is there, 0 to 100; undefined: that is not known. */
export function progressOf(item: ItemView): number | undefined {
  const { state, size } = item;
  switch (state.kind) {
    case "done":
    case "instant":
    case "verifying":
      return 100;
    case "sending":
    case "hashing":
    case "paused":
      return size > 0 ? Math.min(100, (state.bytes / size) * 100) : 100;
    case "parked":
      return state.bytes === null ? undefined : size > 0 ? (state.bytes / size) * 100 : 0;
    default:
      return undefined;
  }
}

const knownFailures = new Set(["file-changed", "file-unreadable", "gave-up", "damaged", "deleted", "proxy"]);

/** What is true of it now, in words. when writes a moment. */
export function describe(item: ItemView, t: Say, when: (iso: string) => string): string {
  const { state, size } = item;
  switch (state.kind) {
    case "waiting":
      return t(`upload.waiting.${state.why}`);
    case "hashing":
      return t("upload.hashing", { done: bytes(state.bytes), size: bytes(size) });
    case "sending": {
      const parts = [`${bytes(state.bytes)} / ${bytes(size)}`, `${bytes(state.rate)}/s`];
      if (state.eta !== null) parts.push(t("upload.eta", { time: duration(state.eta) }));
      return parts.join(" · ");
    }
    case "verifying":
      return t("upload.verifying");
    case "instant":
      return t("upload.instant", { size: bytes(size) });
    case "done":
      return t("upload.done", { size: bytes(size) });
    case "parked":
      return [t(`upload.parked.${state.needs}`), t("upload.keptUntil", { when: when(state.until) })].join(" · ");
    case "no-space":
      if (state.owed !== undefined) return t("upload.noSpace.owed", { owed: bytes(state.owed) });
      return state.missing === null ? t(`upload.noSpace.${state.of}`) : t("upload.noSpace.missing", { missing: bytes(state.missing) });
    case "failed":
      return knownFailures.has(state.why) ? t(`upload.failures.${state.why}`) : state.detail || t("upload.failed", { why: state.why });
    case "paused":
      return t("upload.paused", { done: bytes(state.bytes), size: bytes(size) });
    case "skipped":
      return t("upload.skipped");
    case "cancelled":
      return t("upload.cancelled");
  }
}

/** What a person can do about it. */
export function actionsOf(state: State): ("pause" | "resume" | "retry" | "cancel" | "remove")[] {
  switch (state.kind) {
    case "waiting":
    case "hashing":
    case "sending":
      return ["pause", "cancel"];
    case "paused":
      return ["resume", "cancel"];
    case "parked":
      return ["resume", "cancel"];
    case "no-space":
      return ["retry", "cancel"];
    case "failed":
      return state.retryable ? ["retry", "cancel"] : ["cancel"];
    case "verifying":
      return [];
    default:
      return ["remove"];
  }
}
