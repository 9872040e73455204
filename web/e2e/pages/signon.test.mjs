// Logging in by an identity provider: there and back, refused, to where one was going, and connected with a user who is there already.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { freePort, launch, logIn, openPage, shoot, startServer } from "./harness.mjs";
import { startIssuer } from "./issuer.mjs";

let server, browser, issuer;
before(async () => {
  issuer = await startIssuer();
  const address = `127.0.0.1:${await freePort()}`; // the provider sends people back to it
  server = await startServer("--listen", address, "--base-url", `http://${address}`, "--oidc-issuer", issuer.url, "--oidc-client", "drive", "--oidc-name", "Example");
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await server?.stop();
  await issuer?.stop();
});

/** What a page may not complain of: it goes to the provider, which is elsewhere. */
const other = (complaints) => complaints.filter((c) => !c.includes(issuer.url));

async function leave(page, who) {
  await page.getByRole("button", { name: "Log in with Example" }).click();
  await page.locator("#who").fill(who);
  await page.getByRole("button", { name: "Yes" }).click();
}

for (const look of [{}, { width: 390, dark: true }])
  test(`there and back, to where one was going, ${JSON.stringify(look)}`, { timeout: 600_000 }, async () => {
    const { page, context, complaints } = await openPage(browser, server, look);
    await page.goto(`${server.url}/settings`);
    await page.getByRole("button", { name: "Log in with Example" }).waitFor();
    await shoot(page, `signon-login-${look.width ?? "wide"}`);
    await leave(page, "anna");
    await page.waitForURL(/\/settings$/);
    await page.getByText("You can log in with Example.").waitFor();
    await shoot(page, `signon-settings-${look.width ?? "wide"}`);
    assert.equal((await page.context().cookies()).filter((c) => c.name.endsWith("smartdrive_session") && c.httpOnly).length, 1);
    await page.reload();
    await page.getByText("You can log in with Example.").waitFor();
    assert.deepEqual(other(complaints), []);
    await context.close();
  });

test("refused there, begun elsewhere, repeated", { timeout: 600_000 }, async () => {
  const { page, context, complaints } = await openPage(browser, server);
  await page.goto(`${server.url}/login`);
  await page.getByRole("button", { name: "Log in with Example" }).click();
  await page.getByRole("link", { name: "No" }).click();
  await page.getByText("You did not allow the login").waitFor();
  await shoot(page, "signon-refused");
  await page.getByRole("link", { name: "Back" }).click();

  await page.getByRole("button", { name: "Log in with Example" }).click();
  await page.locator("#who").waitFor();
  await page.goBack();
  await leave(page, "ben"); // the button works again
  await page.waitForURL(/\/files/);

  const another = await openPage(browser, server);
  await another.page.goto(`${server.url}/sign-on?code=x&state=y`);
  await another.page.getByText("begun elsewhere").waitFor();
  assert.equal(another.page.url(), `${server.url}/sign-on`);
  assert.deepEqual(other([...complaints, ...another.complaints]), []);
  await another.context.close();
  await context.close();
});

test("a user who is there already is connected, by their password, and disconnected", { timeout: 600_000 }, async () => {
  const { page, context, complaints } = await openPage(browser, server);
  await page.goto(`${server.url}/login`);
  await leave(page, "admin");
  await page.getByText("There is a user admin here already").waitFor();
  await shoot(page, "signon-taken");

  await logIn(page, server, "admin", server.password);
  await page.goto(`${server.url}/settings`);
  const card = page.locator("section", { hasText: "Login with Example" });
  const give = async (password, button) => {
    await card.locator("input[type=password]").fill(password);
    await card.getByRole("button", { name: button, exact: true }).click();
  };
  await give("another password", "Connect");
  await card.getByText("wrong").waitFor();
  await shoot(page, "signon-connect");
  await give(server.password, "Connect");
  await page.locator("#who").fill("admin");
  await page.getByRole("button", { name: "Yes" }).click();
  await page.getByText("You can log in with Example.").waitFor();

  const by = await openPage(browser, server);
  await by.page.goto(`${server.url}/login`);
  await leave(by.page, "admin");
  await by.page.waitForURL(/\/files/);
  await by.page.goto(`${server.url}/admin/users`);
  await by.page.getByText("anna").first().waitFor();
  await by.page.goto(`${server.url}/activity`);
  await by.page.getByText("can log in by the identity provider").waitFor();

  await give(server.password, "Disconnect");
  await card.getByRole("button", { name: "Connect", exact: true }).waitFor();
  await by.page.goto(`${server.url}/files`);
  await by.page.waitForURL(/\/login/); // it has ended there
  assert.deepEqual(other([...complaints, ...by.complaints]), []);
  await by.context.close();
  await context.close();
});

test("a code that is none says so, and asks once", { timeout: 600_000 }, async () => {
  const { page, context } = await openPage(browser, server, { lang: "zh-CN" });
  await page.goto(`${server.url}/login`);
  await page.getByRole("button", { name: "使用 Example 登录" }).click();
  await page.locator("#who").waitFor();
  const state = new URL(page.url()).searchParams.get("state");
  let asked = 0;
  page.on("request", (r) => (asked += r.url().endsWith("/sign-on/finish") ? 1 : 0));
  await page.goto(`${server.url}/sign-on?code=x&state=${state}`);
  await page.getByText("请重新开始").waitFor();
  await shoot(page, "signon-over");
  assert.equal(asked, 1);
  await context.close();
});
