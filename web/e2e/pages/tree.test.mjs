// The tree in which a folder is chosen: opened a folder at a time, by keyboard alone, with a new folder in it.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { api, launch, logIn, openPage, shoot, startServer, tokenOf } from "./harness.mjs";

let server, browser, token;
before(async () => {
  server = await startServer();
  browser = await launch();
  token = await tokenOf(server, "admin", server.password);
  for (const path of ["/alpha/inner/deep", "/beta", "/gamma/moved"]) await api(server, token, "POST", "/nodes", { type: "folder", path, parents: true });
  await api(server, token, "PUT", "/files/gamma/a.txt", "a");
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const names = async (path) => {
  const { id } = await api(server, token, "GET", `/nodes?path=${encodeURIComponent(path)}`);
  return (await api(server, token, "GET", `/nodes/${id}/children`)).items.map((n) => n.name).sort();
};
const tree = (page) => page.getByRole("tree");
const line = (page, name) => tree(page).getByRole("treeitem", { name, exact: true });
/** Waits until the line of a name has the focus: what it takes to get there may be asked of the server. */
const on = (page, name) => page.waitForFunction((n) => document.activeElement?.getAttribute("role") === "treeitem" && document.activeElement.textContent.trim() === n, name);
const open = async (page, path, name, what) => {
  await page.goto(`${server.url}/files${path}`);
  const entry = page.locator("[data-entry]", { hasText: name }).first();
  await entry.locator("input[type=checkbox]").click();
  await page.locator("[data-browser]").focus();
  await page.keyboard.press("Shift+F10");
  await page.getByRole("menuitem", { name: what }).click();
  await tree(page).waitFor();
};

test("by keyboard alone: opened, closed, found by letter, made in it, moved there", { timeout: 300_000 }, async () => {
  const { page, context, complaints } = await openPage(browser, server, {});
  const asked = [];
  page.on("request", (r) => /\/children\?/.test(r.url()) && asked.push(r.url()));
  await logIn(page, server, "admin", server.password);
  await open(page, "/gamma", "moved", "Move to…");
  await on(page, "gamma"); // where it is
  assert.equal(await line(page, "moved").getAttribute("aria-disabled"), "true"); // not into itself
  const before = asked.length;
  await page.keyboard.press("a");
  await on(page, "alpha");
  assert.equal(asked.length, before, "a closed folder is not asked for what is in it");
  await page.keyboard.press("ArrowRight");
  await line(page, "inner").waitFor();
  await page.keyboard.press("ArrowRight");
  await on(page, "inner");
  await page.keyboard.press("ArrowLeft"); // closed: to the parent
  await on(page, "alpha");
  await page.keyboard.press("ArrowLeft"); // closes it
  await line(page, "inner").waitFor({ state: "detached" });
  await page.keyboard.press("Home");
  await on(page, "Files");
  await page.keyboard.press("End");
  await page.keyboard.press("b");
  await on(page, "beta");
  await shoot(page, "tree-wide");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter"); // new folder
  await page.locator("form.new input:focus").waitFor();
  await page.keyboard.type("made here");
  await page.keyboard.press("Enter");
  await on(page, "made here");
  await page.getByText("/beta/made here").waitFor();
  for (let i = 0; i < 3; i++) await page.keyboard.press("Tab"); // new folder, cancel, move here
  await page.keyboard.press("Enter");
  await tree(page).waitFor({ state: "detached" });
  await page.locator("[data-operation]", { hasText: "1 moved to “made here”." }).waitFor();
  assert.deepEqual(await names("/beta/made here"), ["moved"]);
  assert.deepEqual(complaints, []);
  await context.close();
});

test("a folder of hundreds comes a page at a time, on a phone", { timeout: 300_000 }, async () => {
  for (let i = 0; i < 205; i++) await api(server, token, "POST", "/nodes", { type: "folder", path: `/many/f${String(i).padStart(3, "0")}`, parents: true });
  await api(server, token, "PUT", "/files/many/z.txt", "z");
  const { page, context, complaints } = await openPage(browser, server, { width: 360, dark: true, lang: "zh-CN" });
  await logIn(page, server, "admin", server.password);
  await open(page, "/gamma", "a.txt", "复制到…");
  await line(page, "many").locator(".turn").click();
  await line(page, "f199").waitFor();
  assert.equal(await line(page, "f200").count(), 0);
  await shoot(page, "tree-phone");
  await tree(page).getByRole("treeitem", { name: "加载更多" }).click();
  await line(page, "f204").waitFor();
  assert.equal(await tree(page).getByRole("treeitem").count(), 1 + 4 + 205 + (await line(page, "moved").count()));
  await line(page, "f204").click();
  await page.getByText("/many/f204").waitFor();
  await page.getByRole("button", { name: "复制到这里" }).click();
  await page.locator("[data-operation]").waitFor();
  assert.deepEqual(await names("/many/f204"), ["a.txt"]);
  assert.deepEqual(complaints, []);
  await context.close();
});
