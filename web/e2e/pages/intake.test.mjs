// The pages of documents against the real intake, and those of a migration.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { sendSamples } from "./bundles.mjs";
import { onlyWithBodies } from "./firefox.mjs";
import { api, launch, logIn, openPage, said, shoot, startServer, tokenOf } from "./harness.mjs";
import { pdf } from "./samples.mjs";

let server, browser, call;
before(async () => {
  server = await startServer();
  browser = await launch();
  const token = await tokenOf(server, "admin", server.password);
  call = (...args) => api(server, token, ...args);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

test("documents: found, read, a conflict settled, a refused bundle tried again", { timeout: 600_000 }, async () => {
  const { first, second, refused } = await sendSamples(call, "shop", pdf("invoice"));
  assert.deepEqual([first.accepted, first.rejected, second.duplicate, second.conflict, refused.state], [1, 1, 1, 1, "rejected"]);
  const { page, context, complaints } = await openPage(browser, server, {});
  await logIn(page, server, "admin", server.password);
  await page.getByRole("navigation").getByRole("link", { name: "Documents", exact: true }).click();
  const entry = page.locator(".docs li", { hasText: "shop-1" });
  await entry.getByText("conflict").waitFor();
  await entry.getByText("1,481.40 EUR").waitFor();
  await shoot(page, "intake-documents");
  await page.getByLabel("Number or name").fill("nothing of this name");
  await page.getByRole("button", { name: "Show", exact: true }).click();
  await page.getByRole("heading", { name: "No documents" }).waitFor();
  await page.getByRole("button", { name: "Show all" }).click();
  const sheet = page.waitForEvent("download");
  await page.getByRole("link", { name: "CSV" }).or(page.getByRole("button", { name: "CSV" })).first().click();
  let text = "";
  for await (const part of await (await sheet).createReadStream()) text += part;
  assert.match(text, /shop-1/);

  await entry.getByRole("link").click();
  await page.locator(".parties").getByText("Muster AG").waitFor();
  await page.getByText("shop-1.pdf").waitFor();
  await page.getByRole("cell", { name: "A rather long name of what was delivered" }).waitFor();
  await shoot(page, "intake-document");
  await page.getByRole("button", { name: "Compare" }).click();
  await page.getByText("totals.gross").waitFor();
  await shoot(page, "intake-conflict");
  await page.getByRole("button", { name: "Take the later" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Take the later" }).click();
  await page.getByRole("heading", { name: "No conflicts" }).waitFor();
  const [settled] = (await call("GET", "/documents?q=shop-1")).items;
  assert.deepEqual([settled.state, Number(settled.total)], ["accepted", 2400]);

  await page.getByRole("link", { name: "Bundles" }).click();
  await page.locator(".cards li").nth(2).waitFor();
  await shoot(page, "intake-bundles");
  await page.locator(`a[href$="${first.id}"]`).click();
  await page.getByText("The document breaks rules").waitFor();
  await page.getByText(/BR-CO-/).first().waitFor();
  await shoot(page, "intake-bundle");
  await page.goto(`${server.url}/bundles/${refused.id}`);
  await page.getByRole("button", { name: "Try again" }).click();
  await said(page, "It is being processed again.");
  await page.getByText("meta.json is of another bundle or source").first().waitFor();
  assert.deepEqual(complaints, []);
  await context.close();
});

test("rejected documents: listed in a language, sent as CSV, accepted with a reason; conflicts settled together", { timeout: 600_000 }, async () => {
  await sendSamples(call, "store", pdf("invoice"));
  await sendSamples(call, "mart", pdf("invoice"));
  const { page, context, complaints } = await openPage(browser, server, {});
  await logIn(page, server, "admin", server.password);
  await page.goto(`${server.url}/rejections`);
  const entry = page.locator(".cards > li", { hasText: "store-2" });
  await entry.getByText("The total with VAT (BT-112) is the total without VAT plus the VAT").first().waitFor();
  await entry.getByText("expected 60, found 61").first().waitFor();
  await page.getByLabel("Reason").selectOption("invalid");
  await page.getByLabel("Language of the findings").selectOption("de");
  await page.getByRole("button", { name: "Show", exact: true }).click();
  await entry.getByText("Der Gesamtbetrag mit USt (BT-112)").first().waitFor();
  await shoot(page, "intake-rejections");
  const sheet = page.waitForEvent("download");
  await page.getByRole("link", { name: "CSV" }).or(page.getByRole("button", { name: "CSV" })).first().click();
  let text = "";
  for await (const part of await (await sheet).createReadStream()) text += part;
  assert.match(text, /store-2.*BR-CO-15.*Der Gesamtbetrag mit USt/);

  await entry.getByRole("button", { name: "Accept anyway" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Why").fill("agreed by telephone");
  await dialog.getByRole("button", { name: "Accept anyway" }).click();
  await said(page, "Accepted.");
  await entry.waitFor({ state: "detached" });
  const [accepted] = (await call("GET", "/documents?q=store-2")).items;
  await page.goto(`${server.url}/documents/${accepted.id}`);
  await page.getByText("Accepted by hand").waitFor();
  await page.goto(`${server.url}/bundles/${accepted.bundle}`);
  await page.getByText("agreed by telephone").waitFor();

  await page.goto(`${server.url}/conflicts`);
  await page.getByText("2 are shown").waitFor();
  await shoot(page, "intake-conflicts");
  await page.getByRole("button", { name: "Take the later" }).click();
  await dialog.getByRole("button", { name: "Take the later" }).click();
  await page.getByRole("heading", { name: "No conflicts" }).waitFor();
  assert.deepEqual((await call("GET", "/documents?q=mart-1")).items.map((d) => Number(d.total)), [2400]);
  assert.deepEqual(complaints, []);
  await context.close();
});

test("the rules of a source: added, changed, refused, forgotten", { timeout: 600_000 }, async () => {
  const { page, context, complaints } = await openPage(browser, server, {});
  await logIn(page, server, "admin", server.password);
  await page.goto(`${server.url}/sources`);
  const dialog = page.getByRole("dialog");
  const row = page.locator(".cards li", { hasText: "supplier-7" });
  await page.getByRole("button", { name: "Add a source" }).click();
  await dialog.getByLabel("Name of its folder").fill("supplier-7");
  await dialog.getByLabel("Types").fill("380, 381");
  await dialog.getByLabel("Issued from", { exact: true }).fill("2026-01-01");
  await dialog.getByLabel("Ids of sellers").fill("DE 123 456 789\nDE987654321");
  await dialog.getByLabel("Total with tax from", { exact: true }).fill("10");
  await shoot(page, "intake-rules");
  await dialog.getByRole("button", { name: "Save" }).click();
  await row.getByText("types 380, 381 · sellers DE 123 456 789, DE987654321 · issued 2026-01-01 to … · total 10 to …").waitFor();
  await dialog.waitFor({ state: "detached" });
  await shoot(page, "intake-sources");

  await row.getByRole("button", { name: "Change" }).click();
  await dialog.getByLabel("Total with tax from … to").fill("9");
  await dialog.getByRole("button", { name: "Save" }).click();
  await said(page, "el-message--error"); // less than the smallest
  await dialog.getByLabel("Total with tax from … to").fill("900.50");
  await dialog.getByRole("button", { name: "Save" }).click();
  await row.getByText("total 10 to 900.5").waitFor();
  await dialog.waitFor({ state: "detached" });
  const rules = async () => (await call("GET", "/sources/supplier-7")).rules;
  assert.deepEqual(await rules(), { types: ["380", "381"], from: "2026-01-01", sellers: ["DE 123 456 789", "DE987654321"], min: "10", max: "900.5" });

  await row.getByRole("button", { name: "Accept everything" }).click();
  await dialog.getByRole("button", { name: "Accept everything" }).click();
  await row.waitFor({ state: "detached" });
  assert.deepEqual((await call("GET", "/sources")).items.filter((s) => s.name === "supplier-7"), []);
  assert.deepEqual(complaints, []);
  await context.close();
});

/** A migration as the API shows it; the real ones are driven by the tests of package migrate. */
const moving = {
  state: "running", phase: 3, epoch: 7, percent: 10, paused: false,
  from: { db: "/var/lib/smartdrive/smartdrive.db", blobs: "/var/lib/smartdrive/blobs" }, to: { db: "mysql://db.example.org/smartdrive", blobs: "s3://s3.example.org/bucket" },
  progress: { rows: { done: 1_200_000, total: 1_200_000, rate: 8_000 }, blobs: { done: 81_000, total: 90_000, bytes: 750e9, rate: 42e6 }, eta_seconds: 1_600 },
  lag: 0, mismatches: 1, checksum: { state: "done", equal: true, rows: 1_200_000, unequal: 0, at: "2026-11-21T08:00:00Z" },
  instances: [{ id: 4, host: "node-1.example.org", epoch: 6, why: "open s3.example.org: connection refused", seen_at: "2026-11-21T08:00:00Z" }],
  pace: { rows_per_second: 0, bytes_per_second: 0 }, old: null,
  gate: [{ name: "lag", ok: true, detail: "0 changes are not applied yet" }, { name: "mismatches", ok: false, detail: "1 are not explained" }],
  reads: { new: 4_100, fallback: 3, compared: 80, skipped: 1 }, writes: { second: 900, deferred: 2, waited: 4, pause_ms: 120 },
};
/** The same at its end. */
const over = {
  ...moving, phase: 5, gate: [], mismatches: 0,
  old: {
    state: "kept", kept_until: "2026-12-01T08:00:00Z", rows: false, contents: { removed: 0, bytes: 0, kept: 0, ended: false },
    gate: [{ name: "old-rows", ok: true, detail: "47 tables" }, { name: "kept", ok: false, detail: "until 2026-12-01" }],
  },
};
const mismatch = { id: 1, source: "read", subject: "nodes 01a1", ours: "name=a", theirs: "name=b", found_at: "2026-11-21T08:00:00Z", explained: false };

test("a migration: what would happen, its phases, its gate, the way back", { timeout: 600_000, skip: onlyWithBodies }, async () => {
  const { page, context, complaints } = await openPage(browser, server, {});
  await logIn(page, server, "admin", server.password);
  await page.goto(`${server.url}/admin/migration`);
  await page.getByLabel("New database").fill("mysql://user:secret@127.0.0.1:1/none");
  await page.getByRole("button", { name: "Dry run" }).click();
  await Promise.any([page.locator("[role=status] li").first().waitFor(), said(page, "el-message--error")]);
  assert.ok(await page.getByRole("button", { name: "Begin", exact: true }).isDisabled(), "it may begin though it was refused");
  await shoot(page, "migration-look");

  const sent = [];
  let shown = moving;
  await page.route("**/api/v1/admin/migration**", (route) => {
    const request = route.request();
    const path = new URL(request.url()).pathname.split("/admin/migration")[1];
    if (request.method() === "POST") sent.push([path, request.postDataJSON()]);
    return route.fulfill({ json: path === "/mismatches" ? { items: [mismatch], next_cursor: null } : shown });
  });
  await page.reload();
  await page.locator("li[aria-current=step]", { hasText: "Read new" }).waitFor();
  await page.getByText("1 are not explained").waitFor();
  await page.getByText("nodes 01a1").waitFor();
  assert.ok(await page.getByRole("button", { name: "Next phase" }).isDisabled(), "the gate is closed");
  await page.locator("#share").fill("25");
  await page.getByRole("button", { name: "Change" }).click();
  await said(page, "Done.");
  const back = page.locator("#main").getByRole("button", { name: "Back one phase" });
  const dialog = page.getByRole("dialog");
  await back.click();
  await dialog.getByText("Back to phase 2?").waitFor();
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await dialog.waitFor({ state: "detached" });
  await back.click();
  const went = page.waitForResponse("**/admin/migration/rollback"); // it is sent when the dialog has its answer, which may be after it has gone
  await dialog.getByRole("button", { name: "Back one phase" }).click();
  await dialog.waitFor({ state: "detached" });
  await went;
  await shoot(page, "migration-running");
  assert.deepEqual(sent.splice(0), [["/percent", { percent: 25 }], ["/rollback", { phase: 3 }]]);

  await page.getByText("connection refused").waitFor();
  await page.getByLabel("Rows per second").fill("5000");
  await page.getByLabel("Bytes per second").fill("20 MB");
  const bounded = page.waitForResponse("**/admin/migration/rate");
  await page.getByRole("button", { name: "Set limits" }).click();
  await bounded;
  await page.locator("#main").getByRole("button", { name: "Explain" }).click();
  await dialog.locator("textarea").fill("a probe of ours");
  const told = page.waitForResponse("**/mismatches/1/explain");
  await dialog.getByRole("button", { name: "Explain" }).click();
  await told;
  await dialog.waitFor({ state: "detached" });
  shown = over;
  await page.getByText("Read-only; kept until").waitFor();
  await shoot(page, "migration-over");
  await page.getByRole("button", { name: "Delete the old side" }).click();
  await dialog.getByText("It was to be kept until").waitFor();
  const dropped = page.waitForResponse("**/admin/migration/drop-old");
  await dialog.getByRole("button", { name: "Delete the old side" }).click();
  await dropped;
  assert.deepEqual(sent, [["/rate", { rows_per_second: 5000, bytes_per_second: 20 << 20 }], ["/mismatches/1/explain", { reason: "a probe of ours" }], ["/drop-old", { early: true }]]);
  assert.deepEqual(complaints, []);
  await context.close();
});
