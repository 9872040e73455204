// What happened in a drive and in a space, taken back from the list; and webhooks, made, failing, and switched off.
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { api, launch, logIn, openPage, said, shoot, startServer, tokenOf } from "./harness.mjs";

const password = "correct horse battery";
let server, browser, admin;
const tokens = {};
before(async () => {
  server = await startServer("--webhook-addresses", "any"); // the receiver is on this machine
  browser = await launch();
  admin = await tokenOf(server, "admin", server.password);
  for (const name of ["olivia", "edgar"]) {
    await api(server, admin, "POST", "/admin/users", { name, password });
    tokens[name] = await tokenOf(server, name, password);
  }
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const as = (name) => (method, path, body, headers) => api(server, tokens[name], method, path, body, headers);
async function open(name, path, options = {}) {
  const opened = await openPage(browser, server, options);
  await logIn(opened.page, server, name, password);
  await opened.page.goto(server.url + path);
  return opened;
}

test("what happened is told in words, and taken back", { timeout: 300_000 }, async () => {
  const call = as("olivia");
  const file = await call("PUT", "/files/Plans/2027.txt?parents=true", "the first");
  await call("PUT", "/files/Plans/2027.txt?conflict=replace", "the second");
  await call("PATCH", `/nodes/${file.id}`, { name: "2028.txt" });
  await call("POST", `/nodes/${file.parent_id}/grants`, { kind: "user", principal: "edgar", role: "viewer" });
  await call("PUT", "/files/gone.txt", "x");
  await call("DELETE", `/nodes/${(await call("GET", "/nodes?path=/gone.txt")).id}`);

  const { page, context, complaints } = await open("olivia", "/settings");
  await page.getByRole("button", { name: "What happened here" }).click();
  const line = (text) => page.locator(".log li", { hasText: text });
  await line("olivia renamed “2027.txt” to “2028.txt”").waitFor();
  await line("olivia gave edgar the role Viewer in “Plans”").waitFor();
  await line("olivia changed “2028.txt”").or(line("olivia changed “2027.txt”")).first().waitFor();
  await shoot(page, "activity-en");
  await line("moved “gone.txt” to the trash").getByRole("button", { name: "Restore" }).click();
  await line("restored “gone.txt” from the trash").waitFor();
  await line("renamed “2027.txt”").getByRole("button", { name: "Move back" }).click();
  await line("renamed “2028.txt” to “2027.txt”").waitFor();
  const restored = page.waitForResponse((r) => r.url().endsWith("/restore")); // what was said before may still be shown
  await line("changed “2027.txt”").getByRole("button", { name: "Restore the content before" }).click();
  assert.ok((await restored).ok());
  await said(page, "It is taken back.");
  assert.equal((await call("GET", `/nodes/${file.id}`)).size, "the first".length);
  await page.getByRole("combobox", { name: "What is listed" }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("option", { name: "Roles and the space" }).click();
  await line("renamed").first().waitFor({ state: "detached" });
  assert.equal(await page.locator(".log li").count(), 1);

  // What happened to the account itself is told to its user, with the addresses.
  const token = await call("POST", "/tokens", { name: "phone", scopes: ["read"] });
  await call("DELETE", `/tokens/${token.id}`);
  await page.getByRole("combobox", { name: "What is listed" }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("option", { name: "Logins, tokens and settings" }).click();
  await line("olivia revoked the token or app password “phone”").waitFor();
  await line("olivia made the token or app password “phone”").waitFor();
  await line("olivia logged in").first().waitFor();
  await shoot(page, "activity-en-account");

  // Beside the list it is the history of what is chosen; a receiver sees what was done to what they see, and no addresses.
  await page.goto(`${server.url}/files/Plans`);
  await page.locator("[data-entry]", { hasText: "2027.txt" }).locator("input[type=checkbox]").click();
  await page.locator("[data-browser]").focus();
  await page.keyboard.press("Shift+F10");
  await page.getByRole("menuitem", { name: "Details" }).click();
  await page.getByRole("tab", { name: "Activity" }).click();
  await line("added “2027.txt”").waitFor();
  await shoot(page, "activity-en-details");
  const receiver = await open("edgar", `/activity?node=${file.parent_id}`, { lang: "zh-CN", width: 360, dark: true });
  await receiver.page.locator(".log li", { hasText: "olivia 添加了“2027.txt”" }).waitFor();
  assert.equal(await receiver.page.getByText("127.0.0.1").count(), 0);
  assert.equal(await receiver.page.locator(".log li", { hasText: "角色" }).count(), 0);
  assert.equal(await receiver.page.locator(".log li", { hasText: "登录" }).count(), 0);
  assert.equal(await receiver.page.locator(".log button").count(), 0, "a viewer is offered to take something back");
  await shoot(receiver.page, "activity-zh-360-dark");
  assert.deepEqual([...complaints, ...receiver.complaints], []);
  await context.close();
  await receiver.context.close();
});

test("what happened to an account, and downloads, are told in Chinese", { timeout: 300_000 }, async () => {
  const { page, context, complaints } = await openPage(browser, server, { lang: "zh-CN" });
  await logIn(page, server, "olivia", password);
  const entry = (i, type, name, data, by) => ({ id: `${i}-00000000`, at: new Date().toISOString(), type, by: by ? { id: "1", name: by } : null, head: by ? "api" : "link", address: "192.0.2.1", node_id: null, name, path: "", data });
  const items = [ // gathered for a minute, or rare
    entry(4, "login.failed", "", { times: 3, from: ["192.0.2.1"] }), entry(3, "setting.changed", "log-level", { value: "debug", was: "info" }, "olivia"),
    entry(2, "download.begun", "报告.txt", { times: 2 }, "olivia"), entry(1, "download.begun", "报告.txt", { times: 1 }),
  ];
  await page.route(/\/api\/v1\/activity/, (route) => route.fulfill({ json: { items, next_cursor: null } }));
  await page.goto(server.url + "/activity");
  const lines = ["有人 用错误的密码尝试登录（3 次）", "olivia 修改了服务器设置 log-level", "olivia 下载了“报告.txt”（2 次）", "系统或访客 下载了“报告.txt”"];
  for (const [i, line] of lines.entries()) await page.locator(".log li").nth(i).filter({ hasText: line }).waitFor();
  await page.getByText("通过链接").first().waitFor();
  await shoot(page, "activity-zh-account");
  assert.deepEqual(complaints, []);
  await context.close();
});

test("a webhook is made, told, found failing, and switched off", { timeout: 300_000 }, async () => {
  const got = [];
  let answer = 204;
  let told = () => {};
  const receiver = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk) => (body += chunk));
    request.on("end", () => {
      got.push({ headers: request.headers, body });
      response.writeHead(answer).end();
      told();
    });
  });
  await new Promise((listening) => receiver.listen(0, "127.0.0.1", listening));
  const next = () => new Promise((resolve) => (told = resolve));

  const { page, context, complaints } = await open("edgar", "/webhooks");
  await page.getByRole("heading", { name: "No webhooks" }).waitFor();
  await shoot(page, "webhooks-en-empty");
  await page.getByRole("button", { name: "New webhook" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("textbox", { name: "Address" }).fill("ftp://example.org");
  await dialog.getByRole("button", { name: "Save" }).click();
  await dialog.locator(".el-form-item__error").waitFor();
  await dialog.getByRole("textbox", { name: "Address" }).fill(`http://127.0.0.1:${receiver.address().port}/hook`);
  await dialog.getByRole("textbox", { name: "Name" }).fill("the archive");
  await dialog.getByRole("button", { name: "Save" }).click();
  const secret = await dialog.getByRole("textbox", { name: "The secret" }).inputValue();
  assert.match(secret, /^whsec_/);
  await shoot(page, "webhooks-en-secret");
  await dialog.getByRole("button", { name: "Close", exact: true }).last().click();
  await page.getByRole("button", { name: "New secret" }).click();
  await page.getByRole("button", { name: "Make it" }).click();
  const second = await dialog.getByRole("textbox", { name: "The secret" }).inputValue();
  assert.match(second, /^whsec_/);
  assert.notEqual(second, secret);
  await dialog.getByRole("button", { name: "Close", exact: true }).last().click();
  await page.getByText("the old secret signs until").waitFor();
  await shoot(page, "webhooks-en-rotated");

  let arrived = next();
  await as("edgar")("PUT", "/files/told.txt", "x");
  await arrived;
  const { headers, body } = got.at(-1);
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  const signed = createHmac("sha256", key).update(`${headers["webhook-id"]}.${headers["webhook-timestamp"]}.${body}`).digest("base64");
  const [, old] = headers["webhook-signature"].split(" "); // the first is of the new secret
  assert.equal(old, `v1,${signed}`);
  answer = 500;
  arrived = next();
  await as("edgar")("PUT", "/files/refused.txt", "x");
  await arrived;
  const card = page.locator(".cards li", { hasText: "the archive" });
  for (let i = 0; i < 50 && !(await card.getByText("it answered 500").count()); i++) {
    await page.reload();
    await card.waitFor();
  }
  await card.getByText("it answered 500").waitFor();
  await shoot(page, "webhooks-en-failing");
  await card.getByRole("button", { name: "Switch off" }).click();
  await card.getByText("switched off").waitFor();
  await card.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await page.getByRole("heading", { name: "No webhooks" }).waitFor();
  assert.deepEqual(complaints, []);
  await context.close();
  receiver.close();
});
