// A visitor of a share who walks about in it, and is late.
import assert from "node:assert/strict";
import { after, before, beforeEach, afterEach, test } from "node:test";
import { api, launch, openPage, said, startServer, tokenOf } from "./harness.mjs";

let server, browser, token, page, context, complaints;
before(async () => {
  server = await startServer();
  browser = await launch();
  token = await tokenOf(server, "admin", server.password);
  await api(server, token, "PUT", "/files/trip/first%20day/morning/a.txt?parents=true", "1");
  await api(server, token, "PUT", "/files/trip/one.bin", "22");
});
after(async () => {
  await browser?.close();
  await server?.stop();
});
beforeEach(async () => {
  ({ page, context, complaints } = await openPage(browser, server, {}));
});
afterEach(async () => {
  assert.deepEqual(complaints, []);
  await context.close();
});

const share = async (path, terms = {}) => api(server, token, "POST", "/shares", { node: (await api(server, token, "GET", `/nodes?path=${path}`)).id, ...terms });
const entry = (name) => page.locator("[data-entry]", { hasText: name });

test("Back leads to the folder before, a reload to the same one", { timeout: 300_000 }, async () => {
  await page.goto(`${server.url}/s/${(await share("/trip")).token}`);
  await entry("first day").dblclick();
  await entry("morning").dblclick();
  await entry("a.txt").waitFor();
  await page.goBack();
  await entry("morning").waitFor();
  await page.goForward();
  await entry("a.txt").waitFor();
  await page.reload();
  await entry("a.txt").waitFor();
  await page.locator("nav button", { hasText: "first day" }).click();
  await entry("morning").waitFor();
  await page.locator("nav button", { hasText: "trip" }).click();
  await entry("one.bin").waitFor();
});

test("who is late is told so", { timeout: 300_000 }, async () => {
  const folder = await share("/trip");
  await page.goto(`${server.url}/s/${folder.token}`);
  await entry("one.bin").waitFor();
  await page.route(/access=/, (route) => route.continue({ url: route.request().url().replace(/access=[^&]*/, "access=old") }));
  await entry("one.bin").dblclick();
  await said(page, "The page was open for too long. Reload it.");
  await api(server, token, "DELETE", `/shares/${folder.id}`);
  await entry("first day").dblclick();
  await page.getByText("It has expired, was used up, or what it led to is gone.").waitFor();
});

test("a file that others have used up is no download that fails without a word", { timeout: 300_000 }, async () => {
  const file = await share("/trip/one.bin", { max_downloads: 1 });
  await page.goto(`${server.url}/s/${file.token}`);
  await page.getByText("Download").waitFor();
  const { access } = await api(server, "", "POST", `/public/shares/${file.token}/open`, {});
  await (await fetch(`${server.url}/api/v1/public/shares/${file.token}/nodes/root/content?access=${access}`)).arrayBuffer();
  await page.getByText("Download").click();
  await said(page, "This link is no longer valid, or its downloads are used up.");
});
