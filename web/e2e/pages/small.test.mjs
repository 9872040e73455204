// What a page does that nobody notices until it does not: where the focus goes, what "Back" closes, what lies over what, which words it finds.
import assert from "node:assert/strict";
import { after, before, beforeEach, afterEach, test } from "node:test";
import { onlyChromium } from "./firefox.mjs";
import { api, launch, logIn, openPage, startServer, tokenOf } from "./harness.mjs";
import { png } from "./samples.mjs";

let server, browser, token, page, context, complaints;
before(async () => {
  server = await startServer();
  browser = await launch();
  token = await tokenOf(server, "admin", server.password);
  for (let i = 0; i < 60; i++) await api(server, token, "POST", "/nodes", { type: "folder", path: `/folder ${String(i).padStart(2, "0")}` });
  for (const name of ["a.png", "b.png", "c.png"]) await api(server, token, "PUT", `/files/${name}`, png(300, 200));
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

const list = async () => {
  await logIn(page, server, "admin", server.password);
  await page.locator("[data-entry]").first().waitFor();
  await page.locator("[data-browser]").focus();
};
const preview = () => page.locator("dialog[open]");

test("the row that has the focus is seen whole, at both ends", async () => {
  await list();
  const whole = () =>
    page.waitForFunction(() => {
      const row = document.querySelector("[data-entry].focused")?.getBoundingClientRect();
      const view = document.querySelector("[data-browser]").getBoundingClientRect();
      const head = document.querySelector("[data-browser] .head")?.getBoundingClientRect();
      return row && row.top >= (head?.bottom ?? view.top) - 1 && row.bottom <= view.bottom + 1;
    });
  for (const key of ["End", "PageUp", "PageUp", "PageUp", "Home", "PageDown", "ArrowDown"]) {
    await page.keyboard.press(key);
    await whole();
  }
  await page.locator("[role=toolbar] button[aria-pressed]").last().click(); // tiles
  await page.locator("[data-browser]").focus();
  for (const key of ["Home", "End", "PageUp"]) {
    await page.keyboard.press(key);
    await whole();
  }
  await page.locator("[role=toolbar] button[aria-pressed]").first().click();
});

test("details stand beside the list, by keyboard alone, and follow what is chosen", async () => {
  await api(server, token, "PUT", "/files/folder%2000/a.txt", "12345");
  await api(server, token, "PUT", "/files/folder%2000/deep/b.txt?parents=true", "123");
  await list();
  await page.keyboard.press("Home");
  await page.keyboard.press("Shift+F10");
  await page.getByRole("menu").waitFor();
  await page.keyboard.press("End"); // move to trash; details stand above it
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("Enter");
  const side = page.getByRole("complementary", { name: "Details" });
  await side.getByText("2 files · 1 folder · 8 B").waitFor();
  assert.equal(await page.locator("[role=dialog]:visible").count(), 0);
  await page.locator("[data-browser]").focus();
  await page.keyboard.press("End");
  await page.keyboard.press("Space");
  await side.getByRole("heading", { name: "c.png" }).waitFor();
  await page.keyboard.press("Tab"); // from the list into what stands beside it
  assert.ok(await side.evaluate((e) => e.contains(document.activeElement)));
  await page.keyboard.press("Escape");
  await side.waitFor({ state: "detached" });
  assert.ok(await page.locator("[data-browser]").evaluate((e) => e.contains(document.activeElement)));
});

test("a preview has an address, and Back closes it", async () => {
  await list();
  await page.keyboard.press("End");
  await page.keyboard.press("Enter");
  await preview().locator(".loaded img").waitFor();
  await page.waitForURL(/\/files\?preview=/);
  await page.keyboard.press("ArrowLeft");
  await page.getByRole("dialog", { name: "b.png" }).waitFor();
  const address = page.url();
  await page.goBack();
  await preview().waitFor({ state: "detached" });
  assert.equal(new URL(page.url()).search, "");
  await page.goForward();
  await page.getByRole("dialog", { name: "b.png" }).waitFor();
  await page.goto("about:blank");
  await page.goto(address);
  await page.getByRole("dialog", { name: "b.png" }).locator(".loaded img").waitFor();
  await page.keyboard.press("+");
  await preview().locator(".zoomed").waitFor();
  await page.keyboard.press("Escape");
  await preview().waitFor({ state: "detached" });
  await page.waitForURL(/\/files$/);
});

test("a finger that goes over a picture goes to the next one", { skip: onlyChromium }, async () => {
  await context.close();
  ({ page, context, complaints } = await openPage(browser, server, { width: 360 }));
  const id = (await api(server, token, "GET", "/nodes?path=/a.png")).id;
  await logIn(page, server, "admin", server.password);
  await page.goto(`${server.url}/files?preview=${id}`);
  await preview().locator(".loaded img").waitFor();
  const client = await context.newCDPSession(page);
  const touch = (type, x) => client.send("Input.dispatchTouchEvent", { type, touchPoints: type === "touchEnd" ? [] : [{ x, y: 300 }] });
  await touch("touchStart", 300);
  for (const x of [240, 180, 120]) await touch("touchMove", x);
  await touch("touchEnd");
  await page.getByRole("dialog", { name: "b.png" }).waitFor();
});

test("on a phone what can be touched is 44 px, and actions say what they do", async () => {
  await context.close();
  ({ page, context, complaints } = await openPage(browser, server, { width: 360 }));
  await list();
  await page.keyboard.press("End");
  await page.locator("[role=toolbar] .tools button").first().waitFor();
  const small = await page.evaluate(() =>
    [...document.querySelectorAll("header button, [role=toolbar] button, [data-entry] button, [data-entry] input")]
      .filter((e) => e.checkVisibility())
      .map((e) => [e.getAttribute("aria-label") ?? e.textContent, e.getBoundingClientRect()])
      .filter(([, r]) => r.width < 44 || r.height < 39) // rows of a list are as high as a line of text and its border
      .map(([name, r]) => `${name}: ${r.width} × ${r.height}`),
  );
  assert.deepEqual(small, []);
  assert.ok(await page.locator("[data-browser]").evaluate((e) => e.scrollWidth <= e.clientWidth), "the list goes sideways");
  for (const label of await page.locator("[role=toolbar] .tools button span").all()) assert.ok(await label.isVisible(), await label.textContent());
});

test("a new folder takes the focus at once", async () => {
  await list();
  await page.getByRole("button", { name: "New folder" }).click();
  await page.locator("#new-folder input:focus").waitFor(); // while the dialog fades in
  await page.keyboard.type("typed at once");
  await page.keyboard.press("Enter");
  await page.locator("[data-browser]").focus();
  await page.keyboard.press("End");
  for (let i = 0; i < 4; i++) await page.keyboard.press("ArrowUp");
  await page.locator("[data-entry]", { hasText: "typed at once" }).waitFor();
});

test("a link is shown whole where it is to be copied", async () => {
  await list();
  await page.keyboard.press("Home");
  await page.keyboard.press("Shift+F10");
  await page.getByRole("menuitem", { name: "Share", exact: true }).click();
  await page.getByRole("button", { name: "Create link" }).click();
  const fields = page.locator("[role=dialog] textarea");
  await fields.first().waitFor();
  for (const field of await fields.all()) assert.ok(await field.evaluate((e) => e.scrollWidth <= e.clientWidth && e.scrollHeight <= e.clientHeight + 2), await field.inputValue());
});

test("uploads that are done leave the list to its rows", async () => {
  await list();
  await page.evaluate(() => {
    const what = new DataTransfer();
    what.items.add(new File(["x"], "dropped.txt"));
    document.querySelector(".files").dispatchEvent(new DragEvent("drop", { dataTransfer: what, bubbles: true, cancelable: true }));
  });
  await page.locator("section.panel").waitFor();
  await page.locator("section.panel").waitFor({ state: "detached" });
  await page.locator("[data-browser]").focus();
  await page.keyboard.press("End");
  await page.locator("[data-entry]", { hasText: "dropped.txt" }).waitFor();
});

test("passwords: wrong, wrong current, and too many", async () => {
  await page.goto(`${server.url}/login`);
  const attempt = async () => {
    await page.locator("#name").fill("nobody");
    await page.locator("#password").fill("wrong password");
    await page.locator("button[type=submit]").click();
    await page.locator("button[type=submit]:not([aria-busy=true])").waitFor();
  };
  await attempt();
  await page.getByRole("alert").getByText("The name or the password is wrong.").waitFor();
  for (let i = 0; i < 20 && !(await page.getByText(/Too many failed attempts/).count()); i++) await attempt();
  await page.getByRole("alert").getByText(/Too many failed attempts. Try again in 1[45] minutes./).waitFor();
  await logIn(page, server, "admin", server.password);
  await page.goto(`${server.url}/settings`);
  const fields = page.locator("input[type=password]");
  for (const [i, text] of ["not my password", "a longer password", "a longer password"].entries()) await fields.nth(i).fill(text);
  await fields.last().press("Enter");
  await page.getByText("The current password is wrong.").waitFor();
});

test("a zip, a text in Big5 and a picture in Markdown are looked at; two files with one name are compared", async () => {
  const put = (path, body, type) => api(server, token, "PUT", `/files/${path}?parents=true`, body, type ? { "Content-Type": type } : {});
  await put("look/pictures/cat.png", png(60, 40));
  await put("look/notes.md", "# Cat\n\n![the cat](pictures/cat.png) ![gone](pictures/gone.png)\n");
  await put("look/old.txt", new Uint8Array([0xa7, 0xda, 0xad, 0xcc, 0xac, 0x4f, 0xa4, 0xa4, 0xb0, 0xea, 0xa4, 0x48]));
  const folder = await api(server, token, "GET", "/nodes?path=/look");
  const archive = await api(server, token, "POST", "/archives", { folder: folder.id });
  const zip = await fetch(`${server.url}/api/v1/archives/${archive.id}`, { headers: { Authorization: `Bearer ${token}` } });
  await put("look/all.zip", new Uint8Array(await zip.arrayBuffer()));
  await logIn(page, server, "admin", server.password);
  await page.goto(`${server.url}/files/look`);
  const open = (name) => page.locator("[data-entry]", { hasText: name }).locator("a, .title").first().click();
  const close = async () => {
    await page.keyboard.press("Escape");
    await preview().waitFor({ state: "detached" });
  };
  await open("all.zip");
  await preview().locator("li", { hasText: "cat.png" }).waitFor();
  await close();
  await open("old.txt");
  await preview().getByText("我們是中國人").waitFor();
  await preview().getByRole("combobox", { name: "Encoding" }).selectOption("windows-1252");
  await preview().getByText("§Ú").waitFor();
  await close();
  await open("notes.md");
  await preview().locator("img[alt='the cat']").waitFor();
  await preview().getByText("🖼 gone").waitFor();
  await close();

  await page.evaluate(() => {
    const what = new DataTransfer();
    what.items.add(new File(["longer than before"], "old.txt"));
    document.querySelector(".files").dispatchEvent(new DragEvent("drop", { dataTransfer: what, bubbles: true, cancelable: true }));
  });
  const dialog = page.getByRole("dialog", { name: "The name is taken" });
  await dialog.getByText("The new file is 6 B larger.").waitFor();
  assert.equal(await dialog.locator("figure").count(), 2);
  await dialog.getByRole("button", { name: "Skip" }).click();
  await dialog.waitFor({ state: "detached" });
});
