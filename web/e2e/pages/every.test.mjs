// Every page in Chinese and English, wide and at 360 px, light and dark: axe finds nothing serious, the CSP blocks nothing, no request
// goes elsewhere, nothing is wider than the window. A deep run takes screenshots, which are kept to be looked at.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { sendSamples } from "./bundles.mjs";
import { compare, squares } from "./golden.mjs";
import { onlyChromium } from "./firefox.mjs";
import { api, launch, logIn, openPage, rested, shoot, startServer, tokenOf } from "./harness.mjs";
import { pdf, png } from "./samples.mjs";

const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

let server, browser, links;
before(async () => {
  server = await startServer("--preview-helpers", "off"); // the same pictures whatever programs the machine has
  browser = await launch();
  links = await fill();
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

/** Fills the drive with what people have, and with what is meant to harm. */
async function fill() {
  const token = await tokenOf(server, "admin", server.password);
  const call = (...args) => api(server, token, ...args);
  const put = (path, body, headers) => call("PUT", `/files/${path.split("/").map(encodeURIComponent).join("/")}?parents=true`, body, headers);
  for (const path of ["/照片", "/Documents", "/项目资料 2026", "/Empty"]) await call("POST", "/nodes", { type: "folder", path });
  await put("README.md", "# Title\n\ntext <script>window.harmed = 1</script><img src=x onerror='window.harmed = 2'> [bad](javascript:window.harmed=3) ![far](https://example.org/a.png)\n\n| a | b |\n|-|-|\n| 1 | 2 |\n");
  await put("main.go", "package main\n\n// main says hello\nfunc main() { println(\"hello\", 42) }\n");
  await put("evil.html", "<script>window.top.harmed = 4</script>", { "Content-Type": "text/html" });
  await put("evil.svg", `<svg xmlns="http://www.w3.org/2000/svg" width="90" height="60"><rect width="90" height="60" fill="teal"/><script>window.top.harmed = 5</script></svg>`, { "Content-Type": "image/svg+xml" });
  await put("会议纪要.txt", "今天的会议\n内容很多\n");
  await put("contract.pdf", pdf("Hello PDF"));
  await put("cat.png", png(640, 420));
  await put("照片/猫.png", png(300, 300));
  await put("照片/夏天/沙滩.png", png(300, 200));
  for (const name of ["budget 2026.xlsx", "slides.pptx", "song.mp3", "movie.mp4", "backup.tar.gz", "notes.docx", "installer.exe"]) await put(name, "x".repeat(2000));
  await put(`${"a very long name that goes on and on ".repeat(5)}final (3).docx`, "x");
  await put(`${"很长的中文文件名".repeat(9)}.txt`, "x");
  await put("old.txt", "x");
  await call("DELETE", `/nodes/${(await call("GET", "/nodes?path=/old.txt")).id}`);
  await call("POST", "/admin/users", { name: "ann-with-a-rather-long-name-of-hers", password: "ann's password", total: 5 << 20 });
  await call("POST", "/uploads", { path: "/Documents/unfinished.iso", size: 700 << 20 });
  const node = async (path) => (await call("GET", `/nodes?path=${encodeURIComponent(path)}`)).id;
  await sendSamples(call, "supplier-with-a-long-name", pdf("invoice"));
  const [dispute] = (await call("GET", "/conflicts")).items;
  const bundles = (await call("GET", "/bundles")).items;
  const batch = await call("POST", "/exports/manifest?name=invoices-of-october-with-a-long-name", "id,path\nX-1,/cat.png\nX-2,/gone.pdf\nX-3,/照片/没有.pdf\n");
  while ((await call("GET", `/exports/${batch.id}`)).state !== "sealed") await new Promise((done) => setTimeout(done, 100));
  return {
    token, document: dispute.document.id, bundle: bundles.find((b) => b.state === "done" && b.rejected > 0).id,
    folder: await call("POST", "/shares", { node: await node("/照片"), code: "abcd", expires_in: 604800, max_downloads: 10 }),
    file: await call("POST", "/shares", { node: await node("/cat.png"), code: null }),
    collect: await call("POST", "/collects", { folder: await node("/Documents"), title: "作业提交 Homework", message: "请在周五之前提交。", expires_in: 604800, max_bytes: 1 << 30 }),
  };
}

/** What is wrong with the page as it is shown now. */
async function judge(page, where, withAxe) {
  if (withAxe) await page.evaluate(`window.axe || (() => { ${axe} })()`);
  const { violations } = withAxe ? await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"], runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] })) : { violations: [] };
  const faults = violations
    .filter((v) => ["serious", "critical"].includes(v.impact))
    .map((v) => `${where}: ${v.id}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160)).join(" | ")}`);
  const wider = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  if (wider > 0) faults.push(`${where}: ${wider} px wider than the window`);
  const harmed = await page.evaluate(() => window.harmed);
  if (harmed !== undefined) faults.push(`${where}: what a user stored has run (${harmed})`);
  return faults;
}

/** Waits until what a key has scrolled to is drawn: until then the page has the rows of before. */
const drawn = (page) => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done()))));

// Two of the looks have every language, theme and width between them, and axe judges these. A deep run takes the other two, too.
const deep = process.env.SMARTDRIVE_TEST_DEPTH === "deep";
const looks = {
  zh: { lang: "zh-CN", axe: true },
  "en-360-dark": { width: 360, dark: true, axe: true },
  ...(deep && { "en-dark": { dark: true }, "zh-360": { lang: "zh-CN", width: 360 } }),
};

for (const [look, options] of Object.entries(looks)) {
  test(`every page, ${look}`, { timeout: 900_000 }, async () => {
    const { page, context, complaints } = await openPage(browser, server, options);
    await api(server, links.token, "PUT", "/me/preferences", {}); // the look before has left its choices
    const pictures = {};
    const see = async (name) => {
      await rested(page);
      if (deep) pictures[name] = await squares(page, await shoot(page, `${look}-${name}`)); // compared below
      complaints.push(...(await judge(page, name, options.axe)));
    };
    const go = async (path, name, until) => {
      await page.goto(server.url + path);
      await page.locator(until).first().waitFor();
      await see(name);
    };
    await go("/login", "login", "#name");
    await go(`/s/${links.folder.token}`, "share-code", "input.code");
    await page.locator("input.code").fill("ABCD");
    await page.keyboard.press("Enter");
    await page.locator("[data-entry]").first().waitFor();
    await see("share-folder");
    await go(`/s/${links.file.token}`, "share-file", "main h1");
    await go(`/s/${"x".repeat(22)}`, "share-gone", "main h2");
    await go(`/c/${links.collect.token}`, "collect-visitor", "main h1");

    await logIn(page, server, "admin", server.password);
    await page.locator("[data-entry]").first().waitFor();
    await page.locator(".el-message").first().waitFor({ state: "detached" });
    await page.locator("[role=toolbar] .el-button--primary").hover(); // its colours are others then
    await see("files");
    await page.locator("[data-browser]").focus();
    await page.keyboard.press("Control+a");
    await see("files-chosen");
    await page.keyboard.press("Escape");
    await page.locator("[role=toolbar] button[aria-pressed]").last().click();
    await see("files-grid");
    await page.locator("[role=toolbar] button[aria-pressed]").first().click();
    await go("/files/Empty", "files-empty", "main h2");
    await go("/files/no/such/folder", "files-none", "main h2");
    await go("/search?q=a", "search", "[data-entry]");
    await go("/search?q=zzz", "search-none", "main h2");
    await go("/recent", "recent", "[data-entry]");
    await go("/starred", "starred", "main h2");
    await go("/shares", "shares", ".cards li");
    await go("/collects", "collects", ".cards li");
    await go("/exports", "exports", ".cards li");
    await page.locator(".cards button[aria-expanded]").click();
    await page.locator(".cards td").first().waitFor();
    await see("exports-failures");
    await page.locator("main header button").last().click();
    await page.locator("[role=dialog]:visible textarea").waitFor();
    await see("dialog-export");
    await page.keyboard.press("Escape");
    await page.locator("[role=dialog]:visible").first().waitFor({ state: "detached" }).catch(() => {});
    await go("/documents", "documents", ".docs li");
    await go(`/documents/${links.document}`, "document", ".totals dd");
    await go("/conflicts", "conflicts", ".cards li");
    await go("/rejections", "rejections", ".findings li");
    await go(`/documents/${links.document}/conflict`, "conflict", ".keep");
    await go("/bundles", "bundles", ".cards li");
    await go(`/bundles/${links.bundle}`, "bundle", ".findings li");
    await go("/sources", "sources", ".cards li");
    await go("/trash", "trash", "[data-entry]");
    await go("/usage", "usage", "li .track");
    await go("/settings", "settings", ".sd-card li");
    await go("/activity", "activity", ".log li");
    await go("/notices", "notices", ".kinds");
    await go("/webhooks", "webhooks", "main h2");
    await go("/admin/users", "users", ".cards dd");
    await go("/admin/uploads", "all-uploads", ".cards li");
    await go("/admin/system", "system", "table td");
    await go("/admin/migration", "migration", ".phases li");
    await go("/nothing/here", "nothing", "main h2");

    await page.goto(`${server.url}/files`);
    const entry = (name) => page.locator("[data-entry]", { hasText: name });
    for (const name of ["README.md", "main.go", "会议纪要.txt", "contract.pdf", "cat.png", "evil.html", "evil.svg"]) {
      const row = entry(name);
      await page.locator("[data-browser]").focus();
      await page.keyboard.press("Home");
      await drawn(page);
      for (let i = 0; i < 40 && !(await row.count()); i++) {
        await page.keyboard.press("PageDown");
        await drawn(page);
      }
      await row.scrollIntoViewIfNeeded();
      await drawn(page); // a click that scrolls first presses the button while the rows are drawn anew
      await row.locator("a, .title").first().click();
      const layer = page.locator("dialog[open]");
      await layer.locator("iframe, .loaded img, .markdown > *, code:not(:empty)").first().waitFor({ state: "attached" });
      // The browser's own viewer of PDF draws when it likes.
      if (name.endsWith(".pdf")) await layer.locator("iframe").evaluate((frame) => (frame.style.visibility = "hidden"));
      await see(`preview-${name}`);
      await page.keyboard.press("Escape");
      await layer.waitFor({ state: "detached" });
    }
    const menu = async (item, shot) => {
      await page.locator("[data-browser]").focus();
      await page.keyboard.press("Home");
      await page.keyboard.press("Shift+F10");
      await page.locator("[role=menu]:visible").waitFor();
      if (shot === "share") await see("menu");
      await page.locator("[role=menuitem]:visible", { hasText: item }).first().click();
      await page.locator("[role=dialog]:visible").first().waitFor();
      await see(`dialog-${shot}`);
      await page.keyboard.press("Escape");
      await page.locator("[role=dialog]:visible").first().waitFor({ state: "detached" }).catch(() => {});
    };
    await menu(/^分享$|^Share$/, "share");
    await menu(/收集文件|Request files/, "collect");
    await menu(/移动到|Move to/, "move");
    if (options.width) await menu(/详情|Details/, "details");
    else {
      await page.locator("[data-browser]").focus();
      await page.keyboard.press("Home");
      await page.keyboard.press("Shift+F10");
      await page.locator("[role=menuitem]:visible", { hasText: /详情|Details/ }).first().click();
      await page.locator(".dock dd").nth(1).getByText("KB").or(page.locator(".dock dd").nth(1).getByText(" B")).waitFor(); // what is in the folder
      await see("dialog-details");
    }

    assert.deepEqual(complaints, []);
    if (deep) await compare(look, pictures); // fonts and neighbours differ elsewhere: where the whole depth runs
    await context.close();
  });
}

test("the first page is at most 330 KiB", { skip: onlyChromium }, async () => {
  await api(server, links.token, "PUT", "/me/preferences", {}); // tiles have larger pictures than rows
  const { page, context } = await openPage(browser, server, {});
  const client = await context.newCDPSession(page);
  await client.send("Network.enable");
  let bytes = 0;
  client.on("Network.loadingFinished", (e) => (bytes += e.encodedDataLength));
  await logIn(page, server, "admin", server.password); // the page of the login counts, too
  await page.locator("[data-entry]").first().waitFor();
  await page.waitForFunction(() => { // the stream of events is never idle
    const now = performance.getEntriesByType("resource").length;
    const still = window.loaded === now;
    window.loaded = now;
    return still;
  }, null, { polling: 1000 });
  console.log(`login and files together: ${(bytes / 1024).toFixed(0)} KiB over the wire`);
  assert.ok(bytes <= 330 * 1024, `${bytes} bytes`);
  await context.close();
});
