// A browser that several people use: what one of them was doing when the login ended, and what another finds of it.
import assert from "node:assert/strict";
import { after, before, beforeEach, afterEach, test } from "node:test";
import { api, launch, logIn, openPage, startServer, tokenOf } from "./harness.mjs";

const password = "a password of theirs";
let server, browser, tokens, page, context;
before(async () => {
  server = await startServer();
  browser = await launch();
  const admin = await tokenOf(server, "admin", server.password);
  tokens = {};
  for (const name of ["ann", "bob"]) {
    await api(server, admin, "POST", "/admin/users", { name, password: "a password of ours" });
    const token = await tokenOf(server, name, "a password of ours");
    await api(server, token, "PUT", "/me/password", { current: "a password of ours", password });
    tokens[name] = await tokenOf(server, name, password);
  }
});
after(async () => {
  await browser?.close();
  await server?.stop();
});
beforeEach(async () => {
  ({ page, context } = await openPage(browser, server, {}));
  await logIn(page, server, "ann", password);
});
afterEach(async () => {
  await context.close();
  for (const { id } of (await api(server, tokens.ann, "GET", "/uploads")).items) await api(server, tokens.ann, "DELETE", `/uploads/${id}`);
  for (const { id } of (await api(server, tokens.ann, "GET", "/nodes/root/children")).items) await api(server, tokens.ann, "DELETE", `/nodes/${id}`);
});

/** Has ann send three files, whose bytes do not leave before the function that it returns is called. No server has seen them before: it would need no bytes. */
async function sendSlowly() {
  let go;
  const gate = new Promise((resolve) => (go = resolve));
  await page.route(/\/parts\//, (route) => gate.then(() => route.continue()).catch(() => {}));
  const sending = page.waitForRequest(/\/parts\//);
  await page.evaluate(() => {
    const what = new DataTransfer();
    for (const name of ["diary.bin", "letter.bin", "poem.bin"]) what.items.add(new File([crypto.randomUUID(), new Uint8Array(5 << 20)], name));
    document.querySelector(".files").dispatchEvent(new DragEvent("drop", { dataTransfer: what, bubbles: true, cancelable: true }));
  });
  await sending;
  return go;
}

/** Ends all logins of ann but that of the test. */
async function endLogins() {
  for (const s of (await api(server, tokens.ann, "GET", "/sessions")).items) if (!s.current) await api(server, tokens.ann, "DELETE", `/sessions/${s.id}`);
}

async function fillIn(on, name) {
  await on.locator("#name").fill(name);
  await on.locator("#password").fill(password);
  await on.locator("button[type=submit]").click();
}

const namesOf = async (who) => (await api(server, tokens[who], "GET", "/nodes/root/children")).items.map((n) => n.name).sort();

test("who logs in again goes on with what was being sent", { timeout: 300_000 }, async () => {
  const go = await sendSlowly();
  await endLogins();
  go();
  await page.locator("#password").waitFor();
  await fillIn(page, "ann");
  await page.getByText("3 files uploaded").waitFor();
  assert.deepEqual(await namesOf("ann"), ["diary.bin", "letter.bin", "poem.bin"]);
});

test("who logs in after somebody else finds nothing of theirs", { timeout: 300_000 }, async () => {
  const go = await sendSlowly();
  await endLogins();
  go();
  await page.locator("#password").waitFor();
  page.on("dialog", (dialog) => assert.fail(`it asks: ${dialog.message()}`));
  await fillIn(page, "bob");
  await page.getByText("Your drive is empty").waitFor();
  assert.equal(await page.getByText(/diary|letter|poem/).count(), 0);
  assert.deepEqual(await namesOf("bob"), []);
});

test("somebody else logs in in another tab: nothing goes to their drive", { timeout: 300_000 }, async () => {
  const go = await sendSlowly();
  const other = await context.newPage();
  await other.goto(`${server.url}/files`);
  await other.locator(".who").click();
  await other.getByRole("menuitem", { name: "Log out" }).click();
  await other.waitForURL(/\/login/);
  await fillIn(other, "bob");
  await other.getByText("Your drive is empty").waitFor();
  go();
  await page.locator("#password").waitFor();
  assert.deepEqual(await namesOf("bob"), []);
  await fillIn(page, "ann");
  await page.getByText("3 files uploaded").waitFor();
  assert.deepEqual(await namesOf("ann"), ["diary.bin", "letter.bin", "poem.bin"]);
  assert.deepEqual(await namesOf("bob"), []);
});

test("who logs out in one tab has done so in all, and the same with in", { timeout: 300_000 }, async () => {
  await page.getByText("Your drive is empty").waitFor();
  const other = await context.newPage();
  await other.goto(`${server.url}/trash`);
  await other.locator(".who").click();
  await other.getByRole("menuitem", { name: "Log out" }).click();
  await page.locator("#password").waitFor();
  await fillIn(page, "ann");
  await page.getByText("Your drive is empty").waitFor();
  await other.waitForURL(/\/(trash|files)$/);
});
