import { describe as suite, expect, test } from "vitest";
import type { ItemView, State } from "@smartdrive/upload";
import { actionsOf, describe, progressOf } from "./state";

const item = (state: State, size = 100): ItemView => ({ id: "1", name: "a", path: "/a", size, priority: 0, state, uploadId: null, moved: 0 });
const say = (key: string, args?: Record<string, unknown>) => `${key} ${JSON.stringify(args ?? {})}`;

suite("what is shown of an upload", () => {
  test("progress is of the bytes that are there", () => {
    expect(progressOf(item({ kind: "sending", bytes: 25, rate: 1, eta: null }))).toBe(25);
    expect(progressOf(item({ kind: "paused", bytes: 0 }, 0))).toBe(100);
    expect(progressOf(item({ kind: "waiting", why: "queue" }))).toBeUndefined();
  });
  test("the space that is missing is said", () =>
    expect(describe(item({ kind: "no-space", missing: 1 << 20, of: "quota" }), say, String)).toContain("1 MB"));
  test("room that is made, and not yet there, is said to be so", () =>
    expect(describe(item({ kind: "no-space", missing: 1 << 20, of: "quota", owed: 3 << 20 }), say, String)).toContain("3 MB"));
  test("an unfinished upload says until when it is kept", () => {
    const text = describe(item({ kind: "parked", needs: "file", bytes: 1, until: "2026-12-01T08:00:00.000Z" }), say, (iso) => `on ${iso.slice(0, 10)}`);
    expect(text).toContain("upload.parked.file");
    expect(text).toContain("on 2026-12-01");
  });
  test("a failure that the page does not know is said in the server's words", () =>
    expect(describe(item({ kind: "failed", why: "bad-name", detail: "No such name.", retryable: false }), say, String)).toBe("No such name."));
  test("a changed file is not offered to be sent again", () => {
    expect(actionsOf({ kind: "failed", why: "file-changed", detail: "", retryable: false })).not.toContain("retry");
    expect(actionsOf({ kind: "failed", why: "gave-up", detail: "", retryable: true })).toContain("retry");
    expect(actionsOf({ kind: "verifying" })).toEqual([]);
  });
});
