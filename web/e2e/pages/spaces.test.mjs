// Spaces and sharing by name, with three accounts side by side: an owner who manages, a member who edits, and one who may look.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { api, launch, logIn, openPage, said, shoot, startServer, tokenOf } from "./harness.mjs";

const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const password = "correct horse battery";

let server, browser, admin;
const tokens = {};
before(async () => {
  server = await startServer();
  browser = await launch();
  admin = await tokenOf(server, "admin", server.password);
  for (const name of ["olivia", "edgar", "vera"]) {
    await api(server, admin, "POST", "/admin/users", { name, password });
    tokens[name] = await tokenOf(server, name, password);
  }
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const as = (name) => (method, path, body, headers) => api(server, tokens[name], method, path, body, headers);
const idOf = async (name) => (await as(name)("GET", "/me")).user.id;
const entry = (page, name) => page.locator("[data-entry]", { hasText: name });

async function open(name, path, options = {}) {
  const opened = await openPage(browser, server, options);
  await logIn(opened.page, server, name, password);
  if (path) await opened.page.goto(server.url + path);
  return opened;
}

/** What axe calls serious, and what is wider than the window. */
async function judge(page, where) {
  await page.mouse.move(1, 1); // what the pointer is over has another colour, and others are on their way to it
  await page.evaluate(() => Promise.all(document.getAnimations().filter((a) => a.effect.getComputedTiming().iterations !== Infinity).map((a) => a.finished.catch(() => {}))));
  await page.evaluate(`window.axe || (() => { ${axe} })()`);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"], runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] }));
  const serious = violations.filter((v) => ["serious", "critical"].includes(v.impact)).map((v) => `${where}: ${v.id}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 200)).join(" | ")}`);
  const wider = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  assert.deepEqual(wider > 0 ? [...serious, `${where}: ${wider} px wider than the window`] : serious, []);
}

async function leave(...all) {
  for (const { context, complaints } of all) {
    assert.deepEqual(complaints, []);
    await context.close();
  }
}

test("a space with three people: who manages gives access, who edits sends, who looks cannot change", { timeout: 600_000 }, async () => {
  const space = await api(server, admin, "POST", "/admin/spaces", { name: "Design 设计", total: 10 << 20, manager: await idOf("olivia") });
  await as("olivia")("POST", "/nodes", { type: "folder", path: "//Design 设计/Plans/2027", parents: true });
  await as("olivia")("PUT", `/files/Plans/read%20me.txt?space=${space.id}`, "what is planned");
  const owner = await open("olivia");
  await owner.page.getByRole("navigation").getByRole("link", { name: "Design 设计" }).click();
  await entry(owner.page, "Plans").waitFor();
  assert.equal(decodeURIComponent(new URL(owner.page.url()).pathname), "/spaces/Design 设计");
  await owner.page.getByText(/of 10 MB used/).waitFor();

  // The owner takes two people in, by the beginning of their names and with the keyboard alone.
  await owner.page.getByRole("button", { name: "Who has access" }).focus();
  await owner.page.keyboard.press("Enter");
  const dialog = owner.page.getByRole("dialog");
  const who = dialog.getByRole("combobox", { name: "Person or group" });
  for (const [name, role] of [["edgar", "Editor"], ["vera", "Viewer"]]) {
    await who.focus();
    await owner.page.keyboard.type(name.slice(0, 3));
    await dialog.getByRole("option", { name }).waitFor();
    await owner.page.keyboard.press("Enter");
    await dialog.getByRole("combobox", { name: "Role", exact: true }).focus();
    await owner.page.keyboard.press("Enter");
    const options = owner.page.getByRole("listbox").filter({ visible: true }).getByRole("option");
    await options.filter({ hasText: role }).first().waitFor();
    for (let i = 0; i < 8 && !(await owner.page.locator(".el-select-dropdown:visible .is-hovering", { hasText: role }).count()); i++) await owner.page.keyboard.press("ArrowDown");
    await owner.page.keyboard.press("Enter");
    await dialog.getByRole("button", { name: "Give access" }).focus();
    await owner.page.keyboard.press("Enter");
    await dialog.getByRole("listitem").filter({ hasText: name }).waitFor();
  }
  assert.deepEqual((await as("olivia")("GET", `/nodes/${space.root_id}/grants`)).items.map((g) => `${g.name} ${g.role}`).sort(), ["edgar editor", "olivia manager", "vera viewer"]);
  await shoot(owner.page, "spaces-en-people");
  await judge(owner.page, "who has access");
  await owner.page.keyboard.press("Escape");

  const editor = await open("edgar", `/spaces/${encodeURIComponent("Design 设计")}/Plans`, { lang: "zh-CN" });
  const viewer = await open("vera", `/spaces/${encodeURIComponent("Design 设计")}/Plans`, { width: 360, dark: true });
  await entry(editor.page, "read me.txt").waitFor();
  await entry(viewer.page, "read me.txt").waitFor();
  await shoot(viewer.page, "spaces-viewer-360-dark");
  await judge(viewer.page, "a viewer's space");
  assert.equal(await viewer.page.getByRole("button", { name: "Upload" }).count(), 0, "a viewer can upload");
  assert.equal(await viewer.page.getByRole("button", { name: "New folder" }).count(), 0, "a viewer can make folders");

  // The editor sends a file, small and in parts, makes a folder, renames and moves into it.
  const chooser = editor.page.waitForEvent("filechooser");
  await editor.page.locator("[role=toolbar]").getByRole("button", { name: "上传", exact: true }).click();
  await editor.page.getByRole("menuitem", { name: "上传文件", exact: true }).click();
  await (await chooser).setFiles([
    { name: "小.txt", mimeType: "text/plain", buffer: Buffer.from("small") },
    { name: "large.bin", mimeType: "application/octet-stream", buffer: Buffer.alloc(3 << 20, 7) },
  ]);
  await editor.page.getByText("已上传 2 个文件").waitFor();
  await entry(editor.page, "large.bin").waitFor();
  const listed = async (path) => (await as("olivia")("GET", `/nodes/${(await as("olivia")("GET", `/nodes?path=${encodeURIComponent(path)}`)).id}/children`)).items.map((n) => n.name).sort();
  assert.deepEqual(await listed("//Design 设计/Plans"), ["2027", "large.bin", "read me.txt", "小.txt"]);
  assert.equal((await as("olivia")("GET", `/spaces/${space.id}`)).usage.used, (3 << 20) + 5 + 15, "the space does not pay");
  await entry(editor.page, "小.txt").dragTo(entry(editor.page, "2027"));
  await said(editor.page, "已将 1 项移动到“2027”");
  assert.deepEqual(await listed("//Design 设计/Plans/2027"), ["小.txt"]);
  await editor.page.locator("[data-browser]").focus();
  await entry(editor.page, "large.bin").locator("input[type=checkbox]").click();
  await editor.page.locator("[data-browser]").focus();
  await editor.page.keyboard.press("F2");
  await editor.page.getByRole("textbox", { name: "新名称" }).fill("big.bin");
  await editor.page.keyboard.press("Enter");
  await entry(editor.page, "big.bin").waitFor();
  await shoot(editor.page, "spaces-zh-editor");
  await judge(editor.page, "an editor's space");

  // To the trash, which the whole space sees; the owner brings it back.
  await editor.page.locator("[data-browser]").focus();
  await editor.page.keyboard.press("Delete");
  await entry(editor.page, "big.bin").waitFor({ state: "detached" });
  await owner.page.getByRole("link", { name: "Trash of this space" }).click();
  await owner.page.getByRole("heading", { name: "Trash of “Design 设计”" }).waitFor();
  await entry(owner.page, "big.bin").locator("input[type=checkbox]").click();
  await shoot(owner.page, "spaces-en-trash");
  await owner.page.getByRole("button", { name: "Restore" }).click();
  await said(owner.page, "restored");
  assert.deepEqual(await listed("//Design 设计/Plans"), ["2027", "big.bin", "read me.txt"]);

  // A page that hears of it offers no more than the role has; what a page without news still offers is refused in words.
  const deaf = await editor.context.newPage();
  await deaf.route("**/api/v1/events*", (route) => route.abort());
  await deaf.goto(editor.page.url());
  await entry(deaf, "read me.txt").waitFor();
  await api(server, tokens.olivia, "POST", `/nodes/${space.root_id}/grants`, { kind: "user", principal: "edgar", role: "viewer" });
  await editor.page.locator("[role=toolbar]").getByRole("button", { name: "上传", exact: true }).waitFor({ state: "detached" });
  await entry(deaf, "read me.txt").locator("input[type=checkbox]").click();
  await deaf.locator("[data-browser]").focus();
  await deaf.keyboard.press("Delete");
  await said(deaf, "el-message--error");
  await entry(deaf, "read me.txt").waitFor();

  // The settings of the space: a new name, which its address follows; then nobody can change anything.
  await owner.page.getByRole("navigation").getByRole("link", { name: "Design 设计" }).click();
  await owner.page.getByRole("link", { name: "Settings of this space" }).click();
  await owner.page.getByRole("textbox", { name: "Name of the space" }).fill("Drawings");
  await owner.page.getByRole("button", { name: "Rename" }).click();
  await owner.page.getByRole("navigation").getByRole("link", { name: "Drawings" }).waitFor();
  await shoot(owner.page, "spaces-en-settings");
  await judge(owner.page, "settings of a space");
  await owner.page.getByRole("button", { name: "Archive", exact: true }).click();
  await owner.page.getByRole("dialog").getByRole("button", { name: "Archive", exact: true }).click();
  await owner.page.getByText("This space is archived").first().waitFor();
  await owner.page.goto(`${server.url}/spaces/Drawings`);
  await entry(owner.page, "Plans").waitFor();
  assert.equal(await owner.page.getByRole("button", { name: "New folder" }).count(), 0, "an archived space can be changed");
  await leave(owner, editor, viewer);
});

test("who may only send sees a place to send to", { timeout: 600_000 }, async () => {
  const space = await api(server, admin, "POST", "/admin/spaces", { name: "Inbox", manager: await idOf("olivia") });
  await as("olivia")("POST", `/nodes/${space.root_id}/grants`, { kind: "user", principal: "vera", role: "uploader" });
  await as("olivia")("PUT", "/files/secret.txt?space=Inbox", "secret");
  const sender = await open("vera", "/spaces/Inbox");
  const { page } = sender;
  await page.getByRole("heading", { name: "You may send files here" }).waitFor();
  assert.equal(await page.getByText("secret.txt").count(), 0);
  const chooser = page.waitForEvent("filechooser");
  await page.getByRole("button", { name: "Upload files" }).click();
  await (await chooser).setFiles([{ name: "essay.txt", mimeType: "text/plain", buffer: Buffer.from("essay") }]);
  await page.getByText("1 file uploaded").waitFor();
  await shoot(page, "spaces-en-uploader");
  await judge(page, "an uploader's space");
  assert.deepEqual((await as("olivia")("GET", `/nodes/${space.root_id}/children`)).items.map((n) => n.name).sort(), ["essay.txt", "secret.txt"]);
  await leave(sender);
});

test("a folder shared by name: found, renamed and hidden by its receiver, given through a group, and left", { timeout: 600_000 }, async () => {
  const group = await api(server, admin, "POST", "/admin/groups", { name: "Staff" });
  await api(server, admin, "PUT", `/admin/groups/${group.id}/members/${await idOf("vera")}`);
  await as("olivia")("PUT", "/files/Private/Budget/2027.txt?parents=true", "numbers");
  const owner = await open("olivia", "/files/Private");
  await entry(owner.page, "Budget").click({ button: "right" });
  await owner.page.getByRole("menuitem", { name: "Share with people" }).click();
  const dialog = owner.page.getByRole("dialog");
  for (const [typed, found] of [["edg", "edgar"], ["sta", "Staff"]]) {
    await dialog.getByRole("combobox", { name: "Person or group" }).fill(typed);
    await dialog.getByRole("option", { name: found }).click();
    if (found === "edgar") await dialog.getByRole("textbox", { name: "Note" }).fill("for Friday");
    await dialog.getByRole("button", { name: "Give access" }).click();
    await dialog.getByRole("listitem").filter({ hasText: found }).waitFor();
  }
  await shoot(owner.page, "shared-en-people");
  await judge(owner.page, "people of a folder");
  await owner.page.keyboard.press("Escape");

  // Of what is below it, the panel says from which folder a role comes.
  await owner.page.goto(`${server.url}/files/Private/Budget`);
  await entry(owner.page, "2027.txt").locator("input[type=checkbox]").click();
  await owner.page.getByRole("toolbar").getByRole("button", { name: "People" }).click();
  await dialog.getByRole("listitem").filter({ hasText: "edgar" }).getByText("from the folder “Budget”").waitFor();
  await dialog.getByRole("listitem").filter({ hasText: "Owner" }).waitFor();
  await owner.page.keyboard.press("Escape");
  await owner.page.goto(`${server.url}/shared-by-me`);
  await owner.page.getByText("Staff").waitFor();
  await shoot(owner.page, "shared-en-by-me");
  await judge(owner.page, "shared by me");

  // The receiver gives it a name, opens it by it, and sees nothing of what lies above.
  const editor = await open("edgar", "/shared-with-me");
  const card = (page) => page.locator(".cards > li").filter({ hasText: "olivia" });
  await card(editor.page).getByText("for Friday").waitFor();
  await card(editor.page).getByRole("button", { name: "Rename" }).click();
  await editor.page.getByRole("textbox", { name: "Your name for it" }).fill("Numbers of Olivia");
  await editor.page.keyboard.press("Enter");
  await editor.page.getByRole("link", { name: "Numbers of Olivia" }).waitFor();
  await shoot(editor.page, "shared-en-with-me");
  await judge(editor.page, "shared with me");
  await editor.page.getByRole("link", { name: "Numbers of Olivia" }).click();
  await entry(editor.page, "2027.txt").waitFor();
  await editor.page.getByRole("navigation", { name: "Path" }).getByText("Numbers of Olivia").waitFor();
  assert.equal(await editor.page.getByText("Private").count(), 0, "what lies above is told");
  await editor.page.getByRole("button", { name: "Who has access" }).click();
  await editor.page.getByRole("dialog").getByText("Managers decide who has access").waitFor();
  await editor.page.keyboard.press("Escape");

  // Hidden it is asked for; left it is gone.
  await editor.page.goto(`${server.url}/shared-with-me`);
  await card(editor.page).getByRole("button", { name: "Hide" }).click();
  await editor.page.getByRole("heading", { name: "Nothing is shared with you" }).waitFor();
  await editor.page.getByText("Show what I have hidden").click();
  await card(editor.page).getByRole("button", { name: "Leave" }).click();
  await editor.page.getByRole("dialog").getByRole("button", { name: "Leave" }).click();
  await card(editor.page).waitFor({ state: "detached" });

  // Who has it through a group is told so, and cannot leave it alone.
  const viewer = await open("vera", "/shared-with-me", { lang: "zh-CN", width: 360, dark: true });
  await card(viewer.page).getByText("通过群组“Staff”").waitFor();
  assert.equal(await viewer.page.getByRole("button", { name: "退出" }).count(), 0);
  await shoot(viewer.page, "shared-zh-360-dark");
  await judge(viewer.page, "shared with me, narrow");
  await leave(owner, editor, viewer);
});

test("administrators make groups and spaces, and bring a deleted one back", { timeout: 600_000 }, async () => {
  const { page, context, complaints } = await openPage(browser, server, {});
  await logIn(page, server, "admin", server.password);
  await page.goto(`${server.url}/admin/groups`);
  await page.getByRole("textbox", { name: "Name of the group" }).fill("Readers");
  await page.keyboard.press("Enter");
  const group = page.locator(".cards > li").filter({ hasText: "Readers" });
  await group.getByRole("button", { name: "Members" }).click();
  await group.getByRole("combobox", { name: "Add member" }).fill("ve");
  await group.getByRole("option", { name: "vera" }).click();
  await group.getByRole("button", { name: "Add member" }).click();
  await group.getByRole("button", { name: "Take out: vera" }).waitFor();
  await shoot(page, "admin-groups-en");
  await judge(page, "groups");

  await page.goto(`${server.url}/admin/spaces`);
  await page.getByRole("button", { name: "Add space" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name", { exact: true }).fill("Archive of 2026");
  await dialog.getByLabel("Storage").fill("3 GB");
  await dialog.getByRole("combobox", { name: "First manager" }).fill("oli");
  await dialog.getByRole("option", { name: "olivia" }).click();
  await shoot(page, "admin-spaces-new-en");
  await judge(page, "a new space");
  await dialog.getByRole("button", { name: "Create" }).click();
  const card = page.locator(".cards > li").filter({ hasText: "Archive of 2026" });
  await card.getByText("of 3 GB used").waitFor();
  const space = (await as("olivia")("GET", "/spaces")).items.find((s) => s.name === "Archive of 2026");
  assert.equal(space.role, "manager");

  // An administrator who is no member gives the group a role, and sees nothing of what is in the space.
  await card.getByRole("button", { name: "Members" }).click();
  await dialog.getByRole("combobox", { name: "Person or group" }).fill("rea");
  await dialog.getByRole("option", { name: "Readers" }).click();
  await dialog.getByRole("button", { name: "Give access" }).click();
  await dialog.getByRole("listitem").filter({ hasText: "Readers" }).waitFor();
  assert.equal((await as("vera")("GET", "/spaces")).items.find((s) => s.id === space.id)?.role, "viewer");
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });

  await card.getByRole("button", { name: "Archive", exact: true }).click();
  await card.getByText("archived").waitFor();
  await card.getByRole("button", { name: "Delete" }).click();
  await dialog.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("heading", { name: "Deleted spaces" }).waitFor();
  assert.equal((await as("olivia")("GET", "/spaces")).items.some((s) => s.id === space.id), false);
  await shoot(page, "admin-spaces-en");
  await judge(page, "spaces");
  await card.getByRole("button", { name: "Bring back" }).click();
  await page.getByRole("heading", { name: "Deleted spaces" }).waitFor({ state: "detached" });
  assert.equal((await as("olivia")("GET", "/spaces")).items.find((s) => s.id === space.id).state, "active");
  assert.deepEqual(complaints, []);
  await context.close();
});

test("the files of somebody who leaves go to somebody else", { timeout: 300_000 }, async () => {
  const leo = await api(server, admin, "POST", "/admin/users", { name: "leo", password });
  tokens.leo = await tokenOf(server, "leo", password);
  await as("leo")("POST", "/nodes", { type: "folder", path: "/Plans/2027", parents: true });
  await as("leo")("PUT", "/files/Plans/2027/read%20me.txt", "what was planned");
  const { page, ...rest } = await openPage(browser, server, {});
  await logIn(page, server, "admin", server.password);
  await page.goto(server.url + "/admin/users");
  const row = page.locator("li", { hasText: "leo" });
  await row.getByRole("button", { name: "Hand over" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("16 B").waitFor();
  await judge(page, "the dialog of a handover");
  await shoot(page, "handover");
  await dialog.getByRole("combobox", { name: "To" }).click();
  await page.getByRole("option", { name: "edgar" }).click();
  await dialog.getByRole("button", { name: "Hand over" }).click();
  await dialog.getByText("edgar has all files of leo: 3 files and folders.").waitFor();
  await shoot(page, "handover-done");
  await dialog.getByRole("button", { name: "Close", exact: true }).last().click();
  await row.getByText("disabled").waitFor();
  await as("edgar")("GET", `/nodes?path=${encodeURIComponent("/Files of leo/Plans/2027/read me.txt")}`);
  await api(server, admin, "DELETE", `/admin/users/${leo.id}`);
  await leave({ page, ...rest });
});

test("a folder that is shown shows what others do in it", { timeout: 300_000 }, async () => {
  const space = await api(server, admin, "POST", "/admin/spaces", { name: "Live", manager: await idOf("olivia") });
  await as("olivia")("POST", `/nodes/${space.root_id}/grants`, { kind: "user", principal: "vera", role: "viewer" });
  const viewer = await open("vera", "/spaces/Live");
  await viewer.page.getByRole("navigation", { name: "Main navigation" }).getByRole("link", { name: "Live" }).waitFor();
  await as("olivia")("POST", "/nodes", { type: "folder", path: "//Live/Plans" });
  await entry(viewer.page, "Plans").waitFor();
  await as("olivia")("PUT", `/files/read%20me.txt?space=${space.id}`, "what is planned");
  await entry(viewer.page, "read me.txt").waitFor();
  await as("olivia")("POST", "/nodes", { type: "folder", path: "//Live/Plans/2027" }); // another folder
  await leave(viewer);
});
