import { beforeAll, expect, test } from "vitest";
import { Problem } from "@/api/client";
import { loadMessages } from "@/i18n";
import { explainLink, explainLogin, explainPassword, explainZip } from "./sentence";

const problem = (status: number, code: string, members: Record<string, unknown> = {}) => new Problem(status, code, "title", "the server's own", members);

beforeAll(() => loadMessages("en"));

test("a login says what was wrong, and when to try again", async () => {
  expect(explainLogin(problem(401, "unauthenticated"))).toBe("The name or the password is wrong.");
  expect(explainLogin(problem(429, "rate", { retry_after: 898 }))).toBe("Too many failed attempts. Try again in 15 minutes.");
  expect(explainLogin(problem(429, "rate", { retry_after: 20 }))).toBe("Too many failed attempts. Try again in 1 minute.");
  expect(explainLogin(problem(503, "unavailable"))).toBe("the server's own");
});
test("a password that was not changed says which one is wrong", () => {
  expect(explainPassword(problem(403, "forbidden", { reason: "password" }))).toBe("The current password is wrong.");
  expect(explainPassword(problem(403, "forbidden"))).toBe("the server's own");
});
test("a zip says its limits", () => {
  expect(explainZip(problem(413, "too-large", { reason: "picked", limit: 20_000 }))).toContain("20,000 entries");
  expect(explainZip(problem(413, "too-large", { limit: 100_000 }))).toContain("100,000 files");
});
test("a dead link says so", () => {
  for (const code of ["gone", "not-found"]) expect(explainLink(problem(410, code))).toContain("expired");
});
