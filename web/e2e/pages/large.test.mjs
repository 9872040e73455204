// A folder with 10,000 entries: it is shown at once, only what is in sight is in the page, a scroll keeps up as in a small folder, and the
// keyboard gets everywhere.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { onlyChromium } from "./firefox.mjs";
import { api, launch, logIn, openPage, shoot, startServer, tokenOf } from "./harness.mjs";

const entries = { large: 10_000, small: 400 };
let server, browser;
before(async () => {
  server = await startServer();
  browser = await launch();
  const token = await tokenOf(server, "admin", server.password);
  for (const name of Object.keys(entries)) await api(server, token, "POST", "/nodes", { type: "folder", path: `/${name}` });
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

/** An entry as the API shows it. Making as many would take minutes, and it is the page that is tested here. */
const node = (i) => ({
  id: `00000000-0000-7000-8000-${String(i).padStart(12, "0")}`, parent_id: null, name: `folder ${i}`, path: `/large/folder ${i}`, type: "folder", size: 0, mime: "",
  mtime: "2026-01-01T00:00:00.000Z", created_at: "2026-01-01T00:00:00.000Z", updated_at: "2026-01-01T00:00:00.000Z", trashed_at: null, rev: 1, digests: {},
});

/** Shows a folder and returns after how many ms there were first entries, and all. */
async function show(page, name) {
  await page.unroute("**/children?*");
  await page.route("**/children?*", (route) => {
    const from = Number(new URL(route.request().url()).searchParams.get("cursor") ?? 0);
    const to = Math.min(entries[name], from + 1000);
    const items = Array.from({ length: to - from }, (_, i) => node(from + i));
    return route.fulfill({ json: { items, next_cursor: to < entries[name] ? String(to) : null } });
  });
  const begun = Date.now();
  await page.goto(`${server.url}/files/${name}`);
  await page.locator("[data-entry]").first().waitFor();
  const first = Date.now() - begun;
  await page.getByText(`${entries[name]} items`, { exact: true }).waitFor();
  return [first, Date.now() - begun];
}

const steps = 120;

/**
 * Scrolls to one place after the other, each far from the one before and drawn before the next, so that each step draws a whole new
 * window of rows. Returns what a step costs in ms, and how many rows are in the page. What counts is the work of the page's thread:
 * clocks on a wall show how busy the machine is with other things.
 */
async function scroll(page) {
  const client = await page.context().newCDPSession(page);
  await client.send("Performance.enable", { timeDomain: "threadTicks" });
  const work = async () => (await client.send("Performance.getMetrics")).metrics.find((m) => m.name === "TaskDuration").value * 1000;
  const before_ = await work();
  const rows = await page.evaluate(async (steps) => {
    const list = document.querySelector("[data-browser]");
    for (let i = 1; i <= steps; i++) {
      list.scrollTop = list.scrollHeight * ((i * 0.382) % 1);
      await new Promise(requestAnimationFrame);
    }
    return document.querySelectorAll("[data-entry]").length;
  }, steps);
  const frame = ((await work()) - before_) / steps;
  await client.detach();
  return [frame, rows];
}

test("10,000 entries", { timeout: 600_000, skip: onlyChromium || (process.env.SMARTDRIVE_TEST_DEPTH !== "deep" && "it measures: left to make deep") }, async () => {
  const { page, complaints } = await openPage(browser, server, {});
  await logIn(page, server, "admin", server.password);
  await show(page, "small");
  await scroll(page); // what runs for the first time is compiled
  const [usual] = await scroll(page);
  const [first, all] = await show(page, "large");
  await scroll(page);
  const [frame, rows] = await scroll(page);
  console.log(`first entries after ${first} ms, all after ${all} ms; a step of the scroll costs ${frame.toFixed(1)} ms, with ${entries.small} entries ${usual.toFixed(1)} ms; ${rows} rows in the page`);
  assert.ok(rows < 60, `${rows} rows are in the page`);
  assert.ok(frame < 2 * usual + 5, `a step of the scroll costs ${frame} ms, in a folder with ${entries.small} entries ${usual} ms`);

  await page.locator("[data-browser]").focus();
  await page.keyboard.press("Home");
  await page.keyboard.press("End");
  await page.locator("[data-entry]", { hasText: "folder 9999" }).waitFor();
  await page.keyboard.press("Control+a");
  await page.getByText("10000 selected").waitFor();
  await shoot(page, "large");
  assert.deepEqual(complaints, []);
});
