// What is starred and what has changed last: by keyboard, in both languages, on a phone; and what the pages say when there is nothing.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { api, launch, logIn, openPage, shoot, startServer, tokenOf } from "./harness.mjs";

const require = createRequire(import.meta.url);
let server, browser, token, axe;
before(async () => {
  server = await startServer();
  browser = await launch();
  token = await tokenOf(server, "admin", server.password);
  axe = await readFile(require.resolve("axe-core/axe.min.js"), "utf8");
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const entry = (page, name) => page.locator("[data-entry]", { hasText: name });
async function judge(page, name) {
  await shoot(page, `shelf-${name}`);
  await page.evaluate(axe);
  const found = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
  const bad = found.violations.filter((v) => ["serious", "critical"].includes(v.impact)).map((v) => `${v.id}: ${v.nodes[0].html.slice(0, 200)}`);
  assert.deepEqual(bad, [], name);
  assert.ok((await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth)) <= 0, `${name} is wider than the window`);
}
const act = async (page, item) => {
  await page.keyboard.press("Shift+F10");
  await page.getByRole("menuitem", { name: item, exact: true }).click();
};

test("starred from the list, found, shown again after a reload, taken away", { timeout: 300_000 }, async () => {
  const { page, context, complaints } = await openPage(browser, server, {});
  await logIn(page, server, "admin", server.password);
  await page.goto(`${server.url}/starred`);
  await page.getByRole("heading", { name: "Nothing is starred" }).waitFor();
  await judge(page, "starred-empty");
  await page.goto(`${server.url}/recent`);
  await page.getByRole("heading", { name: "No files yet" }).waitFor();
  for (const name of ["a.txt", "b.txt", "deep/c.txt"]) await api(server, token, "PUT", `/files/${name}?parents=true`, name);
  await page.getByRole("button", { name: "Go to the files" }).click();
  await entry(page, "a.txt").locator("input[type=checkbox]").click();
  await entry(page, "deep").locator("input[type=checkbox]").click();
  await page.locator("[data-browser]").focus();
  let stars = 0; // they are shown before the server has them
  const kept = page.waitForResponse((r) => r.url().endsWith("/star") && r.ok() && ++stars === 2);
  await act(page, "Star");
  await entry(page, "deep").getByRole("img", { name: "Starred" }).waitFor();
  await kept;
  await page.reload();
  await entry(page, "a.txt").getByRole("img", { name: "Starred" }).waitFor();
  await judge(page, "files");
  await page.getByRole("link", { name: "Starred" }).click();
  await entry(page, "deep").waitFor();
  await judge(page, "starred");
  await page.locator("[data-browser]").focus();
  await page.keyboard.press("Home");
  await act(page, "Remove the star");
  await page.waitForFunction(() => document.querySelectorAll("[data-entry]").length === 1);
  assert.equal((await api(server, token, "GET", "/starred/ids")).items.length, 1);
  await page.keyboard.press("Escape");
  await page.getByRole("link", { name: "Recent" }).click();
  await entry(page, "c.txt").waitFor();
  assert.deepEqual((await page.locator("[data-entry] .title").allTextContents()).map((s) => s.trim()), ["c.txt", "b.txt", "a.txt"]);
  await judge(page, "recent");
  await page.locator("[data-browser]").focus();
  await page.keyboard.press("Home");
  await page.keyboard.press("Enter");
  await page.getByRole("dialog", { name: "c.txt" }).waitFor();
  assert.deepEqual(complaints, []);
  await context.close();
});

test("a star that is set while the stars are on their way is shown", { timeout: 300_000 }, async () => {
  await api(server, token, "PUT", "/files/early.txt", "x");
  const { page, context } = await openPage(browser, server, {});
  await logIn(page, server, "admin", server.password);
  let go;
  const starred = new Promise((resolve) => (go = resolve));
  const asked = new Promise((resolve) =>
    page.route("**/starred/ids", async (route) => {
      const response = await route.fetch(); // as it was before
      resolve();
      await starred;
      await route.fulfill({ response });
    }),
  );
  await page.goto(`${server.url}/files`);
  await asked;
  await entry(page, "early.txt").locator("input[type=checkbox]").click();
  await page.locator("[data-browser]").focus();
  const kept = page.waitForResponse((r) => r.url().endsWith("/star") && r.ok());
  await act(page, "Star");
  await kept;
  const late = page.waitForResponse("**/starred/ids");
  go();
  await (await late).finished();
  await page.evaluate(() => new Promise(requestAnimationFrame));
  await entry(page, "early.txt").getByRole("img", { name: "Starred" }).waitFor();
  await context.close();
});

test("on a phone, in the dark, in Chinese", { timeout: 300_000 }, async () => {
  const { page, context, complaints } = await openPage(browser, server, { width: 360, dark: true, lang: "zh-CN" });
  const { id } = await api(server, token, "PUT", "/files/phone.txt", "x");
  await api(server, token, "PUT", `/nodes/${id}/star`);
  await logIn(page, server, "admin", server.password);
  for (const which of ["starred", "recent"]) {
    await page.goto(`${server.url}/${which}`);
    await entry(page, "phone.txt").waitFor();
    await judge(page, `${which}-phone`);
  }
  assert.deepEqual(complaints, []);
  await context.close();
});

test("what lies with others: it can be opened, and is gone from the list with the right to see it", { timeout: 300_000 }, async () => {
  const password = "correct horse battery";
  for (const name of ["olivia", "vera"]) await api(server, token, "POST", "/admin/users", { name, password });
  const olivia = await tokenOf(server, "olivia", password);
  const vera = await tokenOf(server, "vera", password);
  const me = (await api(server, olivia, "GET", "/me")).user.id;
  const space = await api(server, token, "POST", "/admin/spaces", { name: "Design 设计", manager: me });
  const sketch = await api(server, olivia, "PUT", `/files/Drafts/sketch.txt?space=${space.id}&parents=true`, "lines");
  const plan = await api(server, olivia, "PUT", "/files/Plans/plan.txt?parents=true", "what is planned");
  const viewer = { kind: "user", principal: "vera", role: "viewer" };
  await api(server, olivia, "POST", `/nodes/${space.root_id}/grants`, viewer);
  const grant = await api(server, olivia, "POST", `/nodes/${plan.parent_id}/grants`, viewer);
  for (const n of [sketch, plan]) await api(server, vera, "PUT", `/nodes/${n.id}/star`);

  const { page, context, complaints } = await openPage(browser, server, {});
  await logIn(page, server, "vera", password);
  await page.goto(`${server.url}/starred`);
  await entry(page, "sketch.txt").getByText("Design 设计/Drafts").waitFor();
  await entry(page, "plan.txt").getByText("Shared folder").waitFor();
  await judge(page, "starred-places");
  await entry(page, "sketch.txt").click({ button: "right" });
  assert.equal(await page.getByRole("menuitem", { name: "Share", exact: true }).count(), 0, "a link to what is another's");
  await page.keyboard.press("Escape");
  await entry(page, "plan.txt").dblclick();
  await page.getByRole("dialog", { name: "plan.txt" }).getByText("what is planned").waitFor();
  await page.keyboard.press("Escape");
  await api(server, olivia, "DELETE", `/nodes/${grant.node_id}/grants/${grant.principal_id}`);
  await page.reload();
  await entry(page, "sketch.txt").waitFor();
  assert.equal(await entry(page, "plan.txt").count(), 0);
  assert.deepEqual(complaints, []);
  await context.close();
});
