// Work on many files: everything in a folder chosen at once, an operation with its card, what failed, and the way back.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { onlyChromium } from "./firefox.mjs";
import { api, launch, logIn, openPage, said, shoot, startServer, tokenOf } from "./harness.mjs";

let server, browser, token;
before(async () => {
  server = await startServer();
  browser = await launch();
  token = await tokenOf(server, "admin", server.password);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const call = (method, path, body) => api(server, token, method, path, body);
const folder = (path) => call("POST", "/nodes", { type: "folder", path, parents: true });
const entry = (page, name) => page.locator("[data-entry]", { hasText: name });
const card = (page, text) => page.locator("[data-operation]", { hasText: text });
const names = async (path) => {
  const { id } = await call("GET", `/nodes?path=${encodeURIComponent(path)}`);
  return (await call("GET", `/nodes/${id}/children`)).items.map((n) => n.name).sort();
};

async function enter(path, options = {}) {
  const opened = await openPage(browser, server, options);
  await logIn(opened.page, server, "admin", server.password);
  await opened.page.goto(server.url + path);
  await opened.page.locator("[data-entry]").first().waitFor();
  await opened.page.evaluate(underThePointer);
  return opened;
}

/** Runs in the page: the pointer is at each card as soon as there is one, so that none goes by itself before a busy machine comes to press its button. */
function underThePointer() {
  new MutationObserver(() => {
    for (const it of document.querySelectorAll("[data-operation]:not([data-pointer])")) {
      it.dataset.pointer = "";
      it.dispatchEvent(new PointerEvent("pointerenter"));
    }
  }).observe(document.body, { childList: true, subtree: true });
}

/** Counts the requests that a page makes to change something. */
function changes(page) {
  const all = [];
  page.on("request", (r) => {
    if (r.method() !== "GET" && r.url().includes("/api/v1/") && !/prepare|preferences/.test(r.url())) all.push(`${r.method()} ${new URL(r.url()).pathname.replace(/^.*api\/v1/, "")}`);
  });
  return all;
}

test("all of a folder goes to the trash by one request, and comes back by another", { timeout: 600_000 }, async () => {
  for (let i = 0; i < 30; i++) await folder(`/all/f${String(i).padStart(2, "0")}`);
  const { page, context, complaints } = await enter("/files/all");
  const sent = changes(page);
  await page.locator("[data-select-all]").click();
  await page.getByText("All 30 selected").waitFor();
  await entry(page, "f07").locator("input[type=checkbox]").click(); // but for this one
  await page.getByText("29 selected", { exact: true }).waitFor();
  await shoot(page, "operations-chosen");
  await page.locator("[data-browser]").focus();
  await page.keyboard.press("Delete");
  await card(page, "29 items are in the trash.").waitFor();
  await entry(page, "f08").waitFor({ state: "detached" });
  await shoot(page, "operations-trashed");
  assert.deepEqual(await names("/all"), ["f07"]);
  await card(page, "29 items").getByRole("button", { name: "Undo" }).click();
  await card(page, "Undone: 29 items are as before.").waitFor();
  await entry(page, "f08").waitFor();
  assert.equal((await names("/all")).length, 30);
  assert.equal(sent.length, 2, sent.join(", "));
  assert.deepEqual(complaints, []);
  await context.close();
});

test("what fails is listed, and tried again", { timeout: 600_000 }, async () => {
  for (const path of ["/from/a", "/from/b", "/from/c", "/from/into/b"]) await folder(path);
  const { page, context, complaints } = await enter("/files/from");
  for (const name of ["a", "b", "c"]) await entry(page, name).locator("input[type=checkbox]").first().click();
  await entry(page, "a").first().dragTo(entry(page, "into"));
  await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click(); // nothing is renamed
  const moved = card(page, "2 moved to “into”.");
  await moved.getByRole("button", { name: "1 failed" }).click();
  await moved.getByText("/from/b").waitFor();
  await shoot(page, "operations-failed");
  const inTheWay = await call("GET", "/nodes?path=/from/into/b");
  await call("DELETE", `/nodes/${inTheWay.id}`);
  await moved.getByRole("button", { name: "Try again" }).click();
  await card(page, "3 moved to “into”.").waitFor();
  assert.deepEqual(await names("/from/into"), ["a", "b", "c"]);
  assert.deepEqual(complaints, []);
  await context.close();
});

test("a name is given back", { timeout: 600_000 }, async () => {
  await folder("/named/old name");
  const { page, context } = await enter("/files/named");
  await entry(page, "old name").locator("input[type=checkbox]").click();
  await page.locator("[data-browser]").focus();
  await page.keyboard.press("F2");
  await page.keyboard.press("ControlOrMeta+a");
  await page.keyboard.type("new name");
  await page.keyboard.press("Enter");
  await said(page, "Renamed to “new name”.");
  await page.locator(".sd-undo").click();
  await entry(page, "old name").waitFor();
  assert.deepEqual(await names("/named"), ["old name"]);
  await context.close();
});

/** Notes, at each frame, where the entries are. */
const follow = () => {
  globalThis.places = new Set();
  const look = () => {
    const tops = [...document.querySelectorAll("[data-entry]")].map((e) => e.getBoundingClientRect().top);
    if (tops.length > 0) globalThis.places.add(tops.join());
    requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
};

for (const width of [1280, 1000, 390])
  test(`what can be aimed at does not move, ${width}`, { timeout: 600_000 }, async () => {
    for (const name of ["one", "two", "three"]) await folder(`/still ${width}/${name}`);
    const { page, context } = await openPage(browser, server, { width });
    await logIn(page, server, "admin", server.password);
    await page.addInitScript(follow);
    await page.goto(`${server.url}/files/still ${width}`);
    await entry(page, "two").locator("input[type=checkbox]").click();
    await page.getByText("1 selected", { exact: true }).waitFor();
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    const places = await page.evaluate(() => [...globalThis.places]);
    assert.equal(places.length, 1, places.join(" then "));
    await context.close();
  });

test("a finger that stays selects", { timeout: 600_000, skip: onlyChromium }, async () => {
  for (const name of ["one", "two", "three"]) await folder(`/touch/${name}`);
  const { page, context } = await enter("/files/touch", { width: 390 });
  const client = await context.newCDPSession(page);
  const at = await entry(page, "two").boundingBox();
  const point = { x: at.x + 150, y: at.y + 20 };
  await client.send("Input.dispatchTouchEvent", { type: "touchStart", touchPoints: [point] });
  await page.getByText("1 selected", { exact: true }).waitFor();
  await client.send("Input.dispatchTouchEvent", { type: "touchEnd", touchPoints: [] });
  await entry(page, "three").tap(); // now a tap adds
  await page.getByText("2 selected", { exact: true }).waitFor();
  await shoot(page, "operations-touch");
  await context.close();
});

const running = { id: "00000000-0000-7000-8000-000000000001", kind: "trash", state: "running", done: 31_400, failed: 2, total: 100_000, error: "", parent: null, undoable: true, undoes: null, undone_by: null, created_at: "", updated_at: "" };

test("a card stays under a pointer that was there before its end", { timeout: 600_000 }, async () => {
  await folder("/stays/x");
  const { page, context } = await enter("/files/stays");
  await page.clock.install();
  let op = { ...running, failed: 0 };
  await page.route("**/api/v1/operations**", (route) => route.fulfill({ json: op }));
  await entry(page, "x").locator("input[type=checkbox]").click();
  await page.locator("[data-browser]").focus();
  await page.keyboard.press("Delete");
  await page.locator("[data-operation][data-pointer] [role=progressbar]").waitFor();
  op = { ...op, state: "done", done: op.total };
  const undo = page.locator("[data-operation]").getByRole("button", { name: "Undo" });
  await undo.waitFor();
  await page.clock.fastForward(60_000);
  assert.ok(await undo.isVisible());
  await context.close();
});

for (const look of [{}, { dark: true, lang: "zh-CN" }, { width: 390 }, { width: 390, dark: true }]) {
  test(`an operation that runs, ${JSON.stringify(look)}`, { timeout: 600_000 }, async () => {
    const place = `looked at ${look.width ?? "wide"} ${look.dark ?? "light"}`;
    await folder(`/${place}/x`);
    const { page, context } = await enter(`/files/${encodeURIComponent(place)}`, look);
    await page.route("**/api/v1/operations**", (route) => route.fulfill({ json: running }));
    await page.route("**/api/v1/operations/*/failures**", (route) =>
      route.fulfill({ json: { items: [{ id: "1", name: "report.pdf", path: "/looked at/report.pdf", type: "file", code: "not-found", title: "Not found" }], next_cursor: null } }),
    );
    await entry(page, "x").locator("input[type=checkbox]").click();
    await page.locator("[data-browser]").focus();
    await page.keyboard.press("Delete");
    await page.locator("[data-operation] [role=progressbar]").waitFor();
    await page.locator("[data-operation] footer button").first().click();
    await page.locator("[data-operation] li").first().waitFor();
    await shoot(page, `operations-running-${look.width ?? "wide"}-${look.dark ? "dark" : "light"}`);
    await context.close();
  });
}
