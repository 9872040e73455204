// Six things that a stranger does unaided: upload, find, share with a code, restore, free space, add a user. Each step is done as a
// person does it, by what is written on the page, in Chinese and in English; screenshots of each are kept to be looked at.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { api, launch, logIn, openPage, shoot, startServer, tokenOf } from "./harness.mjs";

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

const words = {
  en: {
    lang: "en-US", upload: "Upload", files: "Upload files", search: "Search files and folders", share: "Share", create: "Create link", link: "Link", code: "Extraction code", open: "Open", download: "Download",
    delete: "Delete", trash: "Trash", restore: "Restore", storage: "Storage", toTrash: "To the trash", emptyTrash: "Empty trash", users: "Users", addUser: "Add user", name: "Name", password: "Password", suggest: "Suggest one", quota: "Storage", done: "1 file uploaded", close: "Close", empty: "The trash is empty",
  },
  "zh-CN": {
    lang: "zh-CN", upload: "上传", files: "上传文件", search: "搜索文件和文件夹", share: "分享", create: "创建链接", link: "链接", code: "提取码", open: "提取文件", download: "下载",
    delete: "删除", trash: "回收站", restore: "恢复", storage: "存储空间", toTrash: "前往回收站", emptyTrash: "清空回收站", users: "用户", addUser: "添加用户", name: "用户名", password: "密码", suggest: "生成密码", quota: "空间配额", done: "已上传 1 个文件", close: "关闭", empty: "回收站是空的",
  },
};

/** A login with the password that an administrator chose: nothing else is shown before there is another one. */
async function firstLogin({ page, complaints }, server, name, password, language) {
  await page.goto(`${server.url}/login`);
  await page.locator("#name").fill(name);
  await page.locator("#password").fill(password);
  await page.locator("button[type=submit]").click();
  await page.waitForURL(/\/new-password/);
  await page.goto(`${server.url}/settings`);
  await page.waitForURL(/\/new-password/);
  await shoot(page, `walk-${language}-7-first-login`);
  const own = "only I know this one";
  await page.locator("#current").fill(password);
  await page.locator("#fresh").fill(own);
  await page.locator("#again").fill("something else");
  await page.getByRole("alert").waitFor();
  await page.locator("#again").fill(own);
  await page.keyboard.press("Enter");
  await page.waitForURL((url) => url.pathname.endsWith("/settings")); // where they were going
  await page.goto(`${server.url}/new-password`); // nobody is asked twice
  await page.waitForURL(/\/files/);
  assert.deepEqual(complaints, []);
}

for (const [language, w] of Object.entries(words)) {
  test(`six things in ${language}`, { timeout: 600_000 }, async () => {
    const { page, context, complaints } = await openPage(browser, server, { lang: w.lang });
    const button = (name) => page.getByRole("button", { name, exact: true });
    const entry = (name) => page.locator("[data-entry]", { hasText: name });
    const nav = (name) => page.getByRole("navigation").getByRole("link", { name, exact: true }).click();
    const shot = (name) => shoot(page, `walk-${language}-${name}`);
    const file = `report ${language}.txt`;
    const text = `what is in ${file}`;
    await logIn(page, server, "admin", server.password);
    await shot("0-begin");

    // upload
    const chooser = page.waitForEvent("filechooser");
    await page.locator("[role=toolbar]").getByRole("button", { name: w.upload, exact: true }).click();
    await page.getByRole("menuitem", { name: w.files, exact: true }).click();
    await (await chooser).setFiles([{ name: file, mimeType: "text/plain", buffer: Buffer.from(text) }]);
    await page.getByText(w.done).waitFor();
    await entry(file).waitFor();
    await shot("1-uploaded");

    // find
    await page.getByPlaceholder(w.search).fill("REPORT " + language);
    await page.keyboard.press("Enter");
    await page.waitForURL(/\/search/);
    await entry(file).waitFor();
    await shot("2-found");

    // share with a code, and open it where nobody is logged in
    await page.goto(`${server.url}/files`);
    await entry(file).locator("input[type=checkbox]").click();
    await page.locator("[role=toolbar]").getByRole("button", { name: w.share, exact: true }).click();
    await button(w.create).click();
    const link = await page.getByLabel(w.link, { exact: true }).inputValue();
    const code = await page.getByLabel(w.code, { exact: true }).inputValue();
    assert.match(link, /\/s\/[\w-]{16,}$/);
    assert.match(code, /^[a-z0-9]{4,16}$/i);
    await shot("3-shared");
    const stranger = await openPage(browser, server, { lang: w.lang });
    await stranger.page.goto(link);
    const field = stranger.page.getByLabel(w.code, { exact: true });
    await field.fill("wrong");
    await stranger.page.getByRole("button", { name: w.open, exact: true }).click();
    await stranger.page.getByRole("alert").waitFor();
    await shoot(stranger.page, `walk-${language}-3-wrong-code`);
    await field.fill(code);
    await stranger.page.getByRole("button", { name: w.open, exact: true }).click();
    const saved = stranger.page.waitForEvent("download");
    await stranger.page.getByRole("link", { name: w.download }).or(stranger.page.getByRole("button", { name: w.download })).first().click();
    const stream = await (await saved).createReadStream();
    let got = "";
    for await (const chunk of stream) got += chunk;
    assert.equal(got, text);
    await shoot(stranger.page, `walk-${language}-3-opened`);
    assert.deepEqual(stranger.complaints, []);
    await stranger.context.close();
    await page.keyboard.press("Escape");

    // delete it, and restore it
    await page.goto(`${server.url}/files`);
    await entry(file).locator("input[type=checkbox]").click();
    await page.locator("[role=toolbar]").getByRole("button", { name: w.delete, exact: true }).click();
    await entry(file).waitFor({ state: "detached" });
    await nav(w.trash);
    await entry(file).locator("input[type=checkbox]").click();
    await shot("4-trash");
    await button(w.restore).click();
    await entry(file).waitFor({ state: "detached" });
    await page.goto(`${server.url}/files`);
    await entry(file).waitFor();
    await shot("4-restored");

    // free space
    await entry(file).locator("input[type=checkbox]").click();
    await page.locator("[data-browser]").focus();
    await page.keyboard.press("Delete");
    await entry(file).waitFor({ state: "detached" });
    const before_ = (await api(server, token, "GET", "/me")).usage.used;
    await nav(w.storage);
    await button(w.toTrash).click();
    await button(w.emptyTrash).first().click();
    await page.getByRole("dialog").getByRole("button", { name: w.emptyTrash, exact: true }).click();
    await page.getByRole("heading", { name: w.empty }).waitFor();
    await shot("5-freed");
    assert.equal((await api(server, token, "GET", "/me")).usage.used, before_ - text.length);

    // add a user, who can log in
    await nav(w.users);
    await button(w.addUser).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel(w.name, { exact: true }).fill(`ann-${language}`);
    await dialog.getByRole("button", { name: w.suggest }).click();
    const password = await dialog.getByLabel(w.password, { exact: true }).inputValue();
    await dialog.getByLabel(w.quota, { exact: true }).fill("2 GB");
    await shot("6-adding");
    await dialog.getByRole("button", { name: w.addUser, exact: true }).click();
    await dialog.locator("textarea").waitFor();
    await shot("6-added");
    const ann = await openPage(browser, server, { lang: w.lang });
    await firstLogin(ann, server, `ann-${language}`, password, language);
    assert.equal(await ann.page.evaluate(() => fetch("/api/v1/me").then((r) => r.json()).then((m) => m.usage.total)), 2 * 1024 ** 3);
    await ann.context.close();

    assert.deepEqual(complaints, []);
    await context.close();
  });
}
