// What people do with more than one click: files sent through a file request, versions, drag to move, zips, a timer looked up,
// settings changed while the server runs.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { api, launch, logIn, openPage, said, shoot, startServer, tokenOf } from "./harness.mjs";
import { png, unzip } from "./samples.mjs";

let server, browser, token, call, put;
before(async () => {
  server = await startServer("--log-level", "warn");
  browser = await launch();
  token = await tokenOf(server, "admin", server.password);
  call = (...args) => api(server, token, ...args);
  put = (path, body) => call("PUT", `/files/${path.split("/").map(encodeURIComponent).join("/")}?parents=true`, body);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const node = (path) => call("GET", `/nodes?path=${encodeURIComponent(path)}`);
const entry = (page, name) => page.locator("[data-entry]", { hasText: name });

/** A page of the administrator's, and what it complains of. */
async function enter(path) {
  const opened = await openPage(browser, server, {});
  await logIn(opened.page, server, "admin", server.password);
  if (path) await opened.page.goto(server.url + path);
  return opened;
}

async function bytesOf(download) {
  const parts = [];
  for await (const part of await (await download).createReadStream()) parts.push(part);
  return Buffer.concat(parts);
}

/** Answers the next file chooser. */
async function choose(page, open, files) {
  const chooser = page.waitForEvent("filechooser");
  await open();
  await (await chooser).setFiles(files.map(([name, text]) => ({ name, mimeType: "text/plain", buffer: Buffer.from(text) })));
}

test("a file request: sent, seen, changed, closed", { timeout: 600_000 }, async () => {
  await call("POST", "/nodes", { type: "folder", path: "/homework" });
  const owner = await enter("/files");
  const { page } = owner;
  await entry(page, "homework").click({ button: "right" });
  await page.getByRole("menuitem", { name: "Request files" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Title").fill("Essays");
  await dialog.getByRole("button", { name: "Create link" }).click();
  const link = await dialog.getByLabel("Link", { exact: true }).inputValue();

  const sender = await openPage(browser, server, { width: 360 });
  await sender.page.goto(link);
  await sender.page.getByLabel("Your name").fill("Ann");
  await choose(sender.page, () => sender.page.getByRole("button", { name: "Choose files" }).click(), [["essay.txt", "my essay"], ["notes.txt", "my notes"]]);
  await sender.page.getByText("Everything has arrived").waitFor();
  await shoot(sender.page, "flow-collect-sent");
  const other = await openPage(browser, server, {}); // another sender, with a name that is taken
  await other.page.goto(link);
  await choose(other.page, () => other.page.getByRole("button", { name: "Choose files" }).click(), [["essay.txt", "another essay"]]);
  await other.page.getByText("Everything has arrived").waitFor();
  assert.equal(await other.page.getByText("notes.txt").count(), 0, "senders see each other's files");
  const names = (await call("GET", `/nodes/${(await node("/homework")).id}/children`)).items.map((n) => n.name).sort();
  assert.deepEqual(names, ["essay (2).txt", "essay.txt", "notes.txt"]);

  await page.goto(`${server.url}/collects`);
  await page.getByText("Received files").click();
  await page.getByText("Ann ·").first().waitFor();
  await shoot(page, "flow-collect-seen");
  await page.getByRole("button", { name: "Change" }).click();
  await dialog.getByLabel("Title").fill("Essays, until Friday");
  await dialog.getByLabel("Size limit per file").fill("2 KB");
  await shoot(page, "flow-collect-change");
  await dialog.getByRole("button", { name: "Save" }).click();
  await page.getByText("Essays, until Friday").waitFor();
  const [changed] = (await call("GET", "/collects")).items;
  assert.equal(changed.max_file, 2048);
  assert.equal(changed.max_bytes, 1 << 30, "a limit that was not touched");
  assert.notEqual(changed.expires_at, null, "an end that was not touched");
  await sender.page.reload();
  await sender.page.getByRole("heading", { name: "Essays, until Friday" }).waitFor();
  await choose(sender.page, () => sender.page.getByRole("button", { name: /files/ }).first().click(), [["long.txt", "x".repeat(4000)]]);
  await sender.page.getByText("long.txt").waitFor();
  await sender.page.getByText(/4000 bytes were sent/).waitFor();

  await page.getByRole("button", { name: "Delete" }).click();
  await dialog.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("heading", { name: "No file requests" }).waitFor();
  await sender.page.reload();
  await sender.page.getByRole("heading", { name: "This file request is closed" }).waitFor();
  for (const one of [owner, sender, other]) {
    assert.deepEqual(one.complaints, []);
    await one.context.close();
  }
});

test("versions: a file is replaced, and an older one comes back", { timeout: 600_000 }, async () => {
  await put("plan.txt", "the first plan");
  const { page, context, complaints } = await enter();
  await choose(page, async () => {
    await page.locator("[role=toolbar]").getByRole("button", { name: "Upload", exact: true }).click();
    await page.getByRole("menuitem", { name: "Upload files" }).click();
  }, [["plan.txt", "the second, longer plan"]]);
  await page.getByRole("button", { name: "Replace" }).click();
  await page.getByText("1 file uploaded").waitFor();
  await entry(page, "plan.txt").click({ button: "right" });
  await page.getByRole("menuitem", { name: "Details" }).click();
  await page.getByRole("tab", { name: "Versions" }).click();
  const versions = page.getByRole("tabpanel", { name: "Versions" }).locator("li");
  await versions.nth(1).waitFor();
  assert.equal(await versions.count(), 2);
  const old = page.waitForEvent("download");
  await versions.nth(1).getByRole("link", { name: "Download" }).or(versions.nth(1).getByRole("button", { name: "Download" })).click();
  assert.equal(String(await bytesOf(old)), "the first plan");
  await versions.nth(1).getByRole("button", { name: "Restore" }).click();
  await versions.nth(2).waitFor();
  await shoot(page, "flow-versions");
  const { id, size } = await node("/plan.txt");
  assert.equal(size, "the first plan".length);
  assert.equal((await call("GET", `/nodes/${id}/versions`)).items.length, 3);
  assert.deepEqual(complaints, []);
  await context.close();
});

test("files are dragged into a folder, and onto the way back", { timeout: 600_000 }, async () => {
  for (const path of ["move/a.txt", "move/b.txt", "move/keep.txt", "move/into/old.txt"]) await put(path, path);
  const { page, context, complaints } = await enter("/files/move");
  await entry(page, "a.txt").locator("input[type=checkbox]").click();
  await entry(page, "b.txt").locator("input[type=checkbox]").click();
  await entry(page, "a.txt").dragTo(entry(page, "into"));
  await page.locator("[data-operation]", { hasText: "2 moved to “into”." }).waitFor();
  await entry(page, "a.txt").waitFor({ state: "detached" });
  const names = async (path) => (await call("GET", `/nodes/${(await node(path)).id}/children`)).items.map((n) => n.name).sort();
  assert.deepEqual(await names("/move/into"), ["a.txt", "b.txt", "old.txt"]);
  await page.goto(`${server.url}/files/move/into`);
  await entry(page, "old.txt").dragTo(page.getByRole("navigation", { name: "Path" }).getByText("move", { exact: true }));
  await entry(page, "old.txt").waitFor({ state: "detached" });
  assert.deepEqual(await names("/move"), ["into", "keep.txt", "old.txt"]);
  assert.deepEqual(complaints, []);
  await context.close();
});

test("a name that would turn itself round is spelt out", { timeout: 600_000 }, async () => {
  await put("odd/bill\u202egpj.exe", "x");
  const { page, context, complaints } = await enter("/files/odd");
  await entry(page, "bill\\u202egpj.exe").waitFor();
  assert.ok(!(await page.locator("body").innerHTML()).includes("\u202e"));
  const { id } = await node("/odd/bill\u202egpj.exe");
  const { url } = await call("POST", "/shares", { node: id });
  await page.goto(url);
  await page.getByRole("heading", { name: "bill\\u202egpj.exe" }).waitFor();
  await page.waitForFunction((title) => document.title === title, "bill\\u202egpj.exe · SmartDrive");
  const saved = page.waitForEvent("download");
  await page.getByRole("link", { name: "Download" }).click();
  await bytesOf(saved);
  assert.deepEqual(complaints, []);
  await context.close();
});

test("zips: of a choice in the drive, and of a share", { timeout: 600_000 }, async () => {
  await put("zips/one.txt", "one");
  await put("zips/图片/two.txt", "two");
  await put("zips/图片/红.png", png(400, 300));
  await put("zips/left.txt", "left");
  const { page, context, complaints } = await enter("/files/zips");
  await entry(page, "one.txt").locator("input[type=checkbox]").click();
  await entry(page, "图片").locator("input[type=checkbox]").click();
  const saved = page.waitForEvent("download");
  await page.locator("[role=toolbar]").getByRole("button", { name: "Download", exact: true }).click();
  const own = unzip(await bytesOf(saved));
  assert.deepEqual(Object.keys(own).sort(), ["zips/one.txt", "zips/图片/two.txt", "zips/图片/红.png"]);
  assert.equal(String(own["zips/图片/two.txt"]), "two");
  await entry(page, "one.txt").locator("input[type=checkbox]").click();
  const folder = page.waitForEvent("download");
  await page.locator("[role=toolbar]").getByRole("button", { name: "Download", exact: true }).click();
  assert.equal((await folder).suggestedFilename(), "图片.zip");
  assert.deepEqual(Object.keys(unzip(await bytesOf(folder))).sort(), ["图片/two.txt", "图片/红.png"]);
  assert.equal((await call("GET", "/exports")).items.length, 0, "a download is no export");
  assert.deepEqual(complaints, []);
  await context.close();

  const share = await call("POST", "/shares", { node: (await node("/zips")).id, code: null });
  const visitor = await openPage(browser, server, {});
  const guest = visitor.page;
  await guest.goto(`${server.url}/s/${share.token}`);
  const all = guest.waitForEvent("download");
  await guest.getByRole("button", { name: "Download all" }).click();
  assert.equal((await all).suggestedFilename(), "zips.zip");
  assert.deepEqual(Object.keys(unzip(await bytesOf(all))).sort(), ["zips/left.txt", "zips/one.txt", "zips/图片/two.txt", "zips/图片/红.png"]);
  await entry(guest, "图片").dblclick();
  await guest.locator("[data-entry] img").waitFor();
  await guest.getByRole("button", { name: "Show as grid" }).click();
  await guest.waitForFunction(() => [...document.querySelectorAll("[data-entry] img")].some((i) => i.complete && i.naturalWidth > 1));
  await shoot(guest, "flow-share-grid");
  await entry(guest, "two.txt").locator("input[type=checkbox]").click();
  const single = guest.waitForEvent("download");
  await guest.getByRole("button", { name: "Download (1)" }).click();
  assert.equal(String(await bytesOf(single)), "two");
  const shares = (await call("GET", "/shares")).items.find((s) => s.id === share.id);
  assert.equal(shares.downloads, 2, "a zip is one download, thumbnails are none");
  await call("DELETE", `/shares/${share.id}`);
  await entry(guest, "two.txt").locator("input[type=checkbox]").click();
  await guest.getByRole("button", { name: "Download all" }).click();
  await said(guest, "no longer valid");
  assert.deepEqual(visitor.complaints, []);
  await visitor.context.close();
});

test("an export: of a list, what failed, its zip, supplemented, linked, ended", { timeout: 600_000 }, async () => {
  await put("papers/one.txt", "one");
  const { page, context, complaints } = await enter("/exports");
  await page.getByRole("heading", { name: "No exports" }).waitFor();
  await page.getByRole("button", { name: "Export a list" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("List", { exact: true }).fill("nonsense");
  await dialog.getByRole("button", { name: "Export", exact: true }).click();
  await dialog.getByRole("alert").waitFor();
  await dialog.getByLabel("Name of the zip").fill("papers");
  await dialog.getByLabel("List", { exact: true }).fill("id,path\nA-1,/papers/one.txt\nA-2,/papers/two.txt\n");
  await dialog.getByRole("button", { name: "Export", exact: true }).click();
  const card = page.locator(".cards li", { hasText: "papers" }).last(); // the newest come first
  await card.getByText("ready").waitFor();
  await card.getByText("1 of 2 packed").waitFor();
  await card.getByRole("button", { name: "What failed", exact: true }).click();
  await card.getByRole("row", { name: "2 A-2 /papers/two.txt There is no such file" }).waitFor();
  const saved = page.waitForEvent("download");
  await card.getByRole("link", { name: "Download papers" }).click();
  const packed = unzip(await bytesOf(saved));
  assert.deepEqual(Object.keys(packed).sort(), ["err.txt", "papers/one.txt"]);
  const listed = page.waitForEvent("download");
  await card.getByRole("button", { name: "Save as err.txt" }).click();
  assert.equal((await listed).suggestedFilename(), "err.txt");
  assert.equal((await bytesOf(listed)).toString(), packed["err.txt"].toString());
  await card.getByRole("button", { name: "Link" }).click();
  const link = await page.getByRole("dialog").getByLabel("Link", { exact: true }).inputValue();
  assert.equal((await fetch(link)).status, 200);
  await page.keyboard.press("Escape");
  await card.getByRole("button", { name: "Supplement what failed" }).click();
  const second = page.locator(".cards li", { hasText: "papers-2" });
  await second.getByText("ready").waitFor();
  await put("papers/found.txt", "two");
  await second.getByRole("button", { name: "What failed", exact: true }).click();
  await second.getByRole("button", { name: "Supply a file for /papers/two.txt" }).click();
  const supply = page.getByRole("dialog", { name: "Supply a file" });
  await supply.getByRole("button", { name: "Choose a folder" }).click();
  const picker = page.getByRole("dialog", { name: "Choose a folder" });
  await picker.getByRole("treeitem", { name: "papers" }).click();
  await picker.getByRole("button", { name: "Choose", exact: true }).click();
  await supply.getByLabel("Document").selectOption("found.txt");
  await supply.getByRole("button", { name: "Choose", exact: true }).click();
  await second.getByRole("button", { name: "Supplement with 1 file" }).click();
  const next = page.locator(".cards li", { hasText: "papers-3" });
  await next.getByText("2 of 2 packed").waitFor();
  await next.getByText("ready").waitFor();
  await next.getByRole("button", { name: "End", exact: true }).click();
  await page.getByRole("dialog").getByRole("button", { name: "End", exact: true }).click();
  await next.getByText("cancelled").waitFor();
  assert.deepEqual(complaints, []);
  await context.close();
});

test("an export: what failed is supplied by an upload and by an address", { timeout: 600_000 }, async () => {
  const archive = createServer((_, answer) => answer.end("%PDF-1.7 found elsewhere")).listen(0, "127.0.0.1");
  await once(archive, "listening");
  const host = `127.0.0.1:${archive.address().port}`;
  const own = await startServer("--log-level", "warn", "--export-hosts", host, "--export-addresses", "any");
  try {
    const owner = await tokenOf(own, "admin", own.password);
    await api(own, owner, "POST", "/nodes", { type: "folder", path: "/found" });
    await api(own, owner, "POST", "/exports/manifest?name=disk", "id,path\nA-1,/lost/one.pdf\nA-2,/lost/two.pdf\n", { "Content-Type": "text/csv" });
    const { page, context, complaints } = await openPage(browser, own, {});
    await logIn(page, own, "admin", own.password);
    await page.goto(`${own.url}/exports`);
    const card = page.locator(".cards li", { hasText: "disk" }).last();
    await card.getByText("ready").waitFor();
    await card.getByText("0 of 2 packed").waitFor();
    await card.getByRole("button", { name: "What failed", exact: true }).click();
    const supply = page.getByRole("dialog", { name: "Supply a file" });

    await card.getByRole("button", { name: "Supply a file for /lost/one.pdf" }).click();
    await supply.getByLabel("From").selectOption("upload");
    await supply.locator("input[type=file]").setInputFiles({ name: "one.pdf", mimeType: "application/pdf", buffer: Buffer.from("%PDF-1.7 uploaded") });
    assert.ok(await supply.getByRole("button", { name: "Choose", exact: true }).isDisabled(), "an upload needs a folder");
    await supply.getByRole("button", { name: "Choose a folder" }).click();
    const picker = page.getByRole("dialog", { name: "Choose a folder" });
    await picker.getByRole("treeitem", { name: "found" }).click();
    await picker.getByRole("button", { name: "Choose", exact: true }).click();
    await supply.getByRole("button", { name: "Choose", exact: true }).click();
    await supply.waitFor({ state: "detached" });

    await card.getByRole("button", { name: "Supply a file for /lost/two.pdf" }).click();
    await supply.getByLabel("From").selectOption("url");
    await supply.getByRole("textbox", { name: "Address" }).fill("two.pdf");
    assert.ok(await supply.getByRole("button", { name: "Choose", exact: true }).isDisabled(), "this is no address");
    await supply.getByRole("textbox", { name: "Address" }).fill(`http://${host}/two.pdf`);
    await supply.getByRole("button", { name: "Choose", exact: true }).click();
    await supply.waitFor({ state: "detached" });
    await shoot(page, "flow-export-supplied");

    await card.getByRole("button", { name: "Supplement with 2 files" }).click();
    const next = page.locator(".cards li", { hasText: "disk-2" });
    await next.getByText("2 of 2 packed").waitFor();
    await next.getByText("ready").waitFor();
    const saved = page.waitForEvent("download");
    await next.getByRole("link", { name: "Download disk-2" }).click();
    const packed = unzip(await bytesOf(saved));
    assert.deepEqual(Object.fromEntries(Object.entries(packed).map(([name, bytes]) => [name, bytes.toString()])), {
      "disk/one.pdf": "%PDF-1.7 uploaded", "disk/two.pdf": "%PDF-1.7 found elsewhere",
    });
    assert.deepEqual(complaints, []);
    await context.close();
  } finally {
    archive.close();
    await own.stop();
  }
});

test("an export that goes on: what it has so far", { timeout: 600_000 }, async () => {
  const silent = createServer(() => {}).listen(0, "127.0.0.1"); // takes requests, and answers none
  await once(silent, "listening");
  const host = `127.0.0.1:${silent.address().port}`;
  const own = await startServer("--log-level", "warn", "--export-hosts", host, "--export-addresses", "any");
  try {
    const owner = await tokenOf(own, "admin", own.password);
    await api(own, owner, "PUT", "/files/one.txt", "one");
    const { page, context, complaints } = await openPage(browser, own, {});
    await logIn(page, own, "admin", own.password);
    await page.goto(`${own.url}/exports`);
    await api(own, owner, "POST", "/exports/manifest?name=papers", `id,path,url\nA-1,/one.txt,\nA-2,,http://${host}/two.pdf\n`, { "Content-Type": "text/csv" });
    await page.reload();
    const card = page.locator(".cards li", { hasText: "papers" });
    await card.getByText("1 of 2 packed").waitFor();
    await shoot(page, "flow-export-so-far");
    const saved = page.waitForEvent("download");
    await card.getByRole("link", { name: "Download what papers has so far" }).click();
    assert.equal((await saved).suggestedFilename(), "papers-so-far.zip");
    const packed = unzip(await bytesOf(saved));
    assert.equal(packed["papers/one.txt"].toString(), "one");
    assert.match(packed["err.txt"].toString(), /A-2\t.*two\.pdf\tpending\r\n$/);
    assert.deepEqual(complaints, []);
    await context.close();
  } finally {
    silent.closeAllConnections();
    silent.close();
    await own.stop();
  }
});

test("an export: of a folder, each month, of what is chosen under Files", { timeout: 600_000 }, async () => {
  await put("bills/2026/a.pdf", "a");
  await put("bills/b.txt", "b");
  const { page, context, complaints } = await enter("/exports");
  const dialog = page.getByRole("dialog", { name: "Export a folder" });
  const choose = async () => {
    await page.getByRole("button", { name: "Export a folder" }).click();
    await dialog.getByRole("button", { name: "Choose a folder" }).click();
    const picker = page.getByRole("dialog", { name: "Choose a folder" });
    await picker.getByRole("treeitem", { name: "bills" }).click();
    await page.keyboard.press("ArrowRight");
    await picker.getByRole("treeitem", { name: "2026" }).waitFor(); // what lies in it is there
    await picker.getByRole("button", { name: "Choose", exact: true }).click();
    await dialog.getByText("/bills").waitFor();
  };
  await choose();
  await dialog.getByLabel("Which files").selectOption("since");
  await dialog.getByLabel("Extensions").fill("pdf");
  await dialog.getByLabel("Name of the zip").fill("bills-pdf");
  await dialog.getByLabel("Names in the zip").fill("{nothing}");
  await dialog.getByRole("button", { name: "Export", exact: true }).click();
  await dialog.getByRole("alert").waitFor();
  await dialog.getByLabel("Names in the zip").fill("{folder}-{name}");
  await dialog.getByText("A list of everything in the zip").click();
  await dialog.getByRole("button", { name: "Export", exact: true }).click();
  const card = page.locator(".cards li", { hasText: "bills-pdf" });
  await card.getByText("ready").waitFor();
  const saved = page.waitForEvent("download");
  await card.getByRole("link", { name: "Download bills-pdf" }).click();
  assert.deepEqual(Object.keys(unzip(await bytesOf(saved))).sort(), ["bills-pdf/2026-a.pdf", "index.csv"]);
  const again = page.getByRole("dialog", { name: "month-of-bills is there already" });
  // The first one is made by a program: the page takes the same request within a second for a double click.
  const month = new Date().toISOString().slice(0, 7);
  const zone = await page.evaluate(() => Intl.DateTimeFormat().resolvedOptions().timeZone);
  await call("POST", "/exports", { folder: (await node("/bills")).id, name: "month-of-bills", filter: { month, zone } });
  await choose();
  await dialog.getByLabel("Which files").selectOption("month");
  await dialog.getByLabel("Month", { exact: true }).fill(month);
  await dialog.getByLabel("Name of the zip").fill("month-of-bills");
  await dialog.getByRole("button", { name: "Export", exact: true }).click();
  await again.getByRole("button", { name: "Export again" }).click();
  await dialog.waitFor({ state: "detached" });
  assert.equal((await call("GET", "/exports")).items.filter((x) => x.name === "month-of-bills").length, 2);
  await choose();
  await dialog.getByLabel("Which files").selectOption("monthly");
  await dialog.getByRole("button", { name: "Export each month" }).click();
  const plan = page.getByRole("region", { name: "Each month" }).getByRole("listitem");
  await plan.getByText("bills").waitFor();
  await plan.getByRole("button").click();
  await page.getByRole("dialog").getByRole("button", { name: "End", exact: true }).click();
  await plan.waitFor({ state: "detached" });
  await put("lists/contracts.csv", "path\n/bills/b.txt\n");
  await page.getByRole("button", { name: "Export a list" }).click();
  const listed = page.getByRole("dialog", { name: "Export a list" });
  await listed.getByText("Each month, from a list in the drive").click();
  await listed.getByLabel("Path of the list").fill("/lists/missing.csv");
  await listed.getByRole("button", { name: "Export each month" }).click();
  await listed.getByRole("alert").waitFor();
  await listed.getByLabel("Path of the list").fill("/lists/contracts.csv");
  await listed.getByRole("button", { name: "Export each month" }).click();
  await plan.getByText("contracts").waitFor();
  assert.equal((await call("GET", "/export-schedules")).items[0].list, (await node("/lists/contracts.csv")).id);
  await plan.getByRole("button").click();
  await page.getByRole("dialog").getByRole("button", { name: "End", exact: true }).click();
  await plan.waitFor({ state: "detached" });
  await page.goto(page.url().replace("/exports", "/files/bills"));
  await entry(page, "b.txt").click({ button: "right" });
  await page.getByRole("menuitem", { name: "Export" }).click();
  await page.locator(".cards li", { hasText: "b.txt" }).getByText("1 of 1 packed").waitFor();
  assert.deepEqual(complaints, []);
  await context.close();
});

test("a timer is looked up", { timeout: 600_000 }, async () => {
  const upload = await call("POST", "/uploads", { path: "/big.iso", size: 100 << 20 });
  const { page, context, complaints } = await enter("/admin/system");
  await page.getByPlaceholder("Id of what it watches").fill(`park/${upload.id}`);
  await page.getByRole("button", { name: "Look up" }).click();
  await page.locator("dl[role=status] dd").first().waitFor();
  await shoot(page, "flow-timer");
  await page.getByPlaceholder("Id of what it watches").fill(`abandon/00000000-0000-7000-8000-000000000000`);
  await page.getByRole("button", { name: "Look up" }).click();
  await page.getByText("There is no such timer.").waitFor();
  assert.deepEqual(complaints, []);
  await context.close();
});

test("dead letters are replayed: one, and all of one cause", { timeout: 600_000 }, async () => {
  const me = await call("GET", "/me");
  const died = Date.now();
  /** A letter whose notification says that n files failed. */
  const letter = (n, kind) => {
    const data = { kind: "operation", what: "failed", account: me.account.id, user: me.user.id, data: { failed: n } };
    const event = { specversion: "1.0", id: randomUUID(), source: "test", type: "notice.due", time: new Date(died).toISOString(), datacontenttype: "application/json", data };
    return `INSERT INTO dead_letters (consumer, topic, "key", event, failures, kind, error, died_at)
      VALUES ('notices', 'smartdrive.notices', '${me.account.id}', '${JSON.stringify(event)}', 5, '${kind}', 'attempt of ${n}', ${died});`;
  };
  execFileSync("sqlite3", ["-cmd", ".timeout 20000", join(server.data, "smartdrive.db"), letter(11, "internal") + letter(22, "unavailable") + letter(33, "unavailable")]);
  const told = async () => (await call("GET", "/notices")).items.flatMap((x) => (x.kind === "operation" ? [x.failed] : [])).sort();
  const { page, context, complaints } = await enter("/admin/system");
  const one = page.getByRole("listitem").filter({ hasText: "attempt of 11" });
  await one.getByText("smartdrive.notices").waitFor();
  assert.deepEqual(await told(), []);
  await shoot(page, "flow-dead-letters");
  await one.getByRole("button", { name: "Replay" }).click();
  await said(page, "It is on its way again.");
  await one.waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Replay all 2" }).click();
  await page.getByText("No dead letters").waitFor();
  while ((await told()).length < 3) await new Promise((done) => setTimeout(done, 100)); // the test's timeout ends it
  assert.deepEqual(await told(), [11, 22, 33]);
  assert.deepEqual(complaints, []);
  await context.close();
});

test("settings are changed while the server runs, but for those that it was started with", { timeout: 600_000 }, async () => {
  const { page, context, complaints } = await enter("/admin/system");
  const quota = page.getByLabel("Quota of new accounts and spaces");
  const form = page.locator("form", { has: quota });
  await quota.fill("much");
  await form.getByRole("button", { name: "Save" }).click();
  await said(page, "a size such as 50GiB, or unlimited");
  await quota.fill("3GiB");
  await page.keyboard.press("Enter");
  await form.getByText(/Changed by admin/).waitFor();
  assert.equal((await call("POST", "/admin/users", { name: "newcomer", password: "correct horse battery" })).total, 3 * 2 ** 30);
  await page.getByText("The server was started with --log-level").waitFor();
  await shoot(page, "flow-settings");
  await page.reload();
  await form.getByRole("button", { name: "Back to the default" }).click();
  await form.getByText("Default", { exact: true }).waitFor();
  assert.equal(await quota.inputValue(), "10GiB");
  assert.deepEqual(complaints, []);
  await context.close();
});
