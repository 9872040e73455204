// What people are told: the bell, the page, by mail; and what is left of it when they may not see the thing any more.
import assert from "node:assert/strict";
import { createServer } from "node:net";
import { after, before, test } from "node:test";
import { api, launch, logIn, openPage, said, shoot, startServer, tokenOf } from "./harness.mjs";

const password = "correct horse battery";
let server, browser, post;
const tokens = {};
before(async () => {
  post = await mailServer();
  server = await startServer("--mail", `smtp://127.0.0.1:${post.port}?from=drive@example.org`);
  browser = await launch();
  const admin = await tokenOf(server, "admin", server.password);
  for (const name of ["olivia", "edgar"]) {
    await api(server, admin, "POST", "/admin/users", { name, password });
    tokens[name] = await tokenOf(server, name, password);
  }
});
after(async () => {
  await browser?.close();
  await server?.stop();
  post?.close();
});

/** A server of mail that takes everything. */
async function mailServer() {
  const mails = [];
  const listener = createServer((socket) => {
    let data;
    let rest = "";
    socket.on("error", () => {});
    socket.write("220 here\r\n");
    socket.on("data", (chunk) => {
      rest += chunk;
      for (let end; (end = rest.indexOf("\r\n")) >= 0; ) {
        const line = rest.slice(0, end);
        rest = rest.slice(end + 2);
        if (data && line !== ".") data.push(line);
        else if (data) {
          mails.push(data.join("\n"));
          data = undefined;
          socket.write("250 taken\r\n");
        } else if (line === "DATA") {
          data = [];
          socket.write("354 go on\r\n");
        } else socket.write(line === "QUIT" ? "221 bye\r\n" : "250 fine\r\n");
      }
    });
  });
  await new Promise((resolve) => listener.listen(0, "127.0.0.1", resolve));
  return { mails, port: listener.address().port, close: () => listener.close() };
}

const as = (name) => (method, path, body) => api(server, tokens[name], method, path, body);

test("people are told what is shared with them, while they look", { timeout: 300_000 }, async () => {
  const call = as("olivia");
  const { page, context, complaints } = await openPage(browser, server);
  await logIn(page, server, "edgar", password);
  await page.goto(server.url + "/files");
  await page.getByRole("link", { name: "Notices", exact: true }).waitFor();

  const { id } = await call("POST", "/nodes", { type: "folder", path: "/Plans" });
  await call("POST", `/nodes/${id}/grants`, { kind: "user", principal: "edgar", role: "viewer" });
  const bell = page.getByRole("link", { name: "Notices: 1 unread" });
  await bell.waitFor(); // by the stream of events
  await bell.focus();
  await page.keyboard.press("Enter");
  await page.getByRole("link", { name: "olivia shared “Plans” with you: Viewer" }).waitFor();
  await call("POST", `/nodes/${id}/grants`, { kind: "user", principal: "edgar", role: "editor", expires_in: 86400 });
  await page.getByText("olivia changed your role at “Plans”: Editor (until").waitFor();
  await shoot(page, "notices-en");

  await page.getByRole("link", { name: "olivia shared “Plans” with you: Viewer" }).click();
  await page.waitForURL(/\/spaces\//);
  await page.getByRole("link", { name: "Notices: 1 unread" }).click();
  await page.getByRole("button", { name: "Mark all as read" }).click();
  await page.getByRole("link", { name: "Notices", exact: true }).waitFor();

  // What was taken says no more than was known.
  await call("PATCH", `/nodes/${id}`, { name: "Secret" });
  const [grant] = (await call("GET", `/nodes/${id}/grants`)).items;
  await call("DELETE", `/nodes/${id}/grants/${grant.principal_id}`);
  await page.getByText("olivia took your role at “Secret” away").waitFor();
  await page.getByText("Something was shared with you, and is not any more.").waitFor();
  assert.equal(await page.getByText("Plans").count(), 0);
  assert.deepEqual(complaints, []);
  await context.close();
});

test("that there is more than is told leads to what is shared", { timeout: 300_000 }, async () => {
  const { page, context, complaints } = await openPage(browser, server, { lang: "zh-CN" });
  await logIn(page, server, "edgar", password);
  const told = { id: "01a21636-9d3b-78f2-89ac-e195dc638160", at: new Date().toISOString(), read_at: null, kind: "share", what: "more", gone: false, by: "olivia", node_id: null, name: "", path: "" };
  await page.route(/\/api\/v1\/notices(\?|$)/, (route) => route.fulfill({ json: { items: [told], next_cursor: null, unread: 1 } })); // it takes 20,000 notices to cause it
  await page.goto(server.url + "/notices");
  const link = page.getByRole("link", { name: "还有更多与你共享或为你更改的内容，不再逐条通知：请见“共享给我的”" });
  await link.waitFor();
  await shoot(page, "notices-zh-more");
  await link.click();
  await page.waitForURL(/\/shared-with-me/);
  assert.deepEqual(complaints, []);
  await context.close();
});

test("an address is confirmed, and how one is told is chosen", { timeout: 300_000 }, async () => {
  const { page, context, complaints } = await openPage(browser, server);
  await logIn(page, server, "edgar", password);
  await page.goto(server.url + "/notices");
  await page.getByLabel("Mail goes to").fill("edgar@example.org");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("A code of six digits is on its way").waitFor();
  let code;
  while (!(code = /^Subject: (\d{6}) is your code/m.exec(post.mails.join("\n"))?.[1])) await page.waitForTimeout(200);
  await page.getByLabel("Code").fill(code);
  await page.getByRole("button", { name: "Confirm" }).click();
  await said(page, "Mail goes to this address now.");
  await page.getByRole("radiogroup", { name: "Files by a collect link" }).getByText("Off").click();
  await shoot(page, "notices-settings-en");
  await page.reload();
  assert.equal(await page.getByRole("radiogroup", { name: "Files by a collect link" }).getByRole("radio", { name: "Off" }).isChecked(), true);
  await page.getByText("Confirmed.").waitFor();
  assert.deepEqual(complaints, []);
  await context.close();

  const phone = await openPage(browser, server, { width: 360, lang: "zh-CN" });
  await logIn(phone.page, server, "edgar", password);
  await phone.page.goto(server.url + "/notices");
  await phone.page.locator(".kinds").waitFor();
  await shoot(phone.page, "notices-zh-phone");
  assert.deepEqual(phone.complaints, []);
  await phone.context.close();
});

test("administrators see whether the mail server would take a mail, and none is sent", { timeout: 300_000 }, async () => {
  const sent = post.mails.length;
  for (const [lang, text] of [["en", "on the same machine, would take mail from drive@example.org."], ["zh-CN", "接受来自 drive@example.org 的邮件。"]]) {
    const { page, context, complaints } = await openPage(browser, server, { lang, width: lang === "en" ? 1280 : 360 });
    await logIn(page, server, "admin", server.password);
    await page.goto(server.url + "/admin/system");
    await page.getByText(text).waitFor();
    await page.getByText(text).scrollIntoViewIfNeeded();
    await shoot(page, `mail-server-${lang}`);
    assert.deepEqual(complaints, []);
    await context.close();
  }
  assert.equal(post.mails.length, sent);
});
