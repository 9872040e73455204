// Starts the real binary and a real browser for the tests of the pages.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, mkdir, readFile, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { afterEach } from "node:test";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import * as firefox from "./firefox.mjs";

const here = dirname(fileURLToPath(import.meta.url));
export const shots = join(here, "screenshots"); // not in git: test output, to be looked at

/** Returns a port of loopback that nobody listens on. */
export async function freePort() {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const { port } = probe.address();
  probe.close();
  await once(probe, "close");
  return port;
}

/** Starts a server on a free port with data of its own. */
export async function startServer(...flags) {
  const bin = process.env.SMARTDRIVE_BIN;
  if (!bin) throw new Error("SMARTDRIVE_BIN must name the binary to test");
  const data = await mkdtemp(join(tmpdir(), "smartdrive-e2e-"));
  const child = spawn(bin, ["serve", "--listen", "127.0.0.1:0", "--data", data, "--min-free", "1MiB", ...flags], { stdio: ["ignore", "pipe", "pipe"] });
  let log = "";
  child.stderr.on("data", (chunk) => (log += chunk));
  const url = await new Promise((resolve, reject) => {
    let out = "";
    child.stdout.on("data", (chunk) => {
      out += chunk;
      const ready = /ready at (\S+)/.exec(out);
      if (ready) resolve(ready[1]);
    });
    child.on("exit", (code) => reject(new Error(`the server ended with ${code}: ${log}`)));
  });
  const password = (await readFile(join(data, "initial-password"), "utf8")).trim();
  const stop = async () => {
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.removeAllListeners("exit");
    child.once("exit", () => {});
    const gone = new Promise((resolve) => child.once("close", resolve));
    child.kill("SIGTERM");
    await Promise.race([ended, gone]);
    await rm(data, { recursive: true, force: true });
  };
  return { url, password, data, stop, log: () => log };
}

const open = new Map(); // the pages that no test has closed yet, with their servers

afterEach(async (t) => {
  if (t.passed === false)
    for (const [page, server] of open) {
      const shown = await page.locator("body").innerText({ timeout: 5_000 }).catch((error) => error.message);
      console.error(`"${t.name}" has failed. ${page.url()} shows:\n${shown.slice(0, 2_000)}\nThe server has said:\n${server.log().split("\n").slice(-30).join("\n")}`);
    }
  open.clear();
});

/** Calls the API as a program would. */
export async function api(server, token, method, path, body, headers = {}) {
  const raw = body instanceof Uint8Array || typeof body === "string";
  const response = await fetch(`${server.url}/api/v1${path}`, {
    method,
    headers: { ...(token ? { Authorization: `Bearer ${token}` } : {}), ...(body && !raw ? { "Content-Type": "application/json" } : {}), ...headers },
    body: body && !raw ? JSON.stringify(body) : body,
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
  return text ? JSON.parse(text) : undefined;
}

export async function tokenOf(server, name, password) {
  return (await api(server, "", "POST", "/sessions", { name, password })).token;
}

export const launch = () =>
  firefox.chosen ? firefox.launch() : chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });

/**
 * A page whose complaints are kept: what the CSP blocked, what went to another origin, what was thrown.
 * options: {width, dark, lang, mobile}
 */
export async function openPage(browser, server, options = {}) {
  const width = options.width ?? 1280;
  const context = await browser.newContext({
    viewport: { width, height: width < 600 ? 740 : 800 },
    locale: options.lang ?? "en-US",
    colorScheme: options.dark ? "dark" : "light",
    hasTouch: width < 600,
    isMobile: width < 600,
    acceptDownloads: true,
    reducedMotion: "reduce",
  });
  await context.addInitScript(listen);
  const page = await context.newPage();
  open.set(page, server);
  page.on("close", () => open.delete(page));
  page.setDefaultTimeout(90_000); // for what takes a moment; the machine may be busy
  const complaints = [];
  page.on("pageerror", (error) => complaints.push(`thrown: ${error.message}`));
  page.on("console", (message) => {
    if (/Content Security Policy|Refused to|violates/i.test(message.text())) complaints.push(`blocked: ${message.text()}`);
  });
  page.on("request", (request) => {
    const url = new URL(request.url());
    if (url.protocol.startsWith("http") && url.origin !== new URL(server.url).origin) complaints.push(`went elsewhere: ${request.url()}`);
    if (url.pathname.endsWith("/csp-report")) complaints.push(`reported: ${request.postData()}`);
  });
  return { page, context, complaints };
}

/** Runs in every page before its own scripts: notes what messages say. They are appended to the body. */
function listen() {
  window.said = [];
  addEventListener("DOMContentLoaded", () =>
    new MutationObserver((changes) => {
      for (const node of changes.flatMap((c) => [...c.addedNodes])) if (node.matches?.(".el-message")) window.said.push(`${node.className}: ${node.textContent}`);
    }).observe(document.body, { childList: true }),
  );
}

/** Waits until a message of the page, none that was waited for before, says something or is of a class. It may have gone again: messages stay for seconds. */
export const said = (page, what) =>
  page.waitForFunction((w) => {
    const at = window.said.findIndex((message) => message.includes(w));
    return at >= 0 && window.said.splice(0, at + 1);
  }, what);

export async function logIn(page, server, name, password) {
  await page.goto(`${server.url}/login`);
  await page.locator("#name").fill(name);
  await page.locator("#password").fill(password);
  await page.locator("button[type=submit]").click();
  await page.waitForURL(/\/files/);
}

/** Waits until what fades or slides in has come to rest. What turns for ever does not count. */
export const rested = (page) =>
  page.evaluate(() => {
    const ends = document.getAnimations().filter((a) => a.effect.getComputedTiming().endTime !== Infinity);
    return Promise.allSettled(ends.map((a) => a.finished)).then(() => {});
  });

export async function shoot(page, name) {
  await mkdir(shots, { recursive: true });
  await rested(page);
  return page.screenshot({ path: join(shots, `${name}.png`) });
}
