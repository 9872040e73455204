/** What the scenarios stand on: the page, the browser, files, figures. */
import { randomBytes } from "node:crypto";
import { mkdir, mkdtemp, open, readFile, rm, writeFile } from "node:fs/promises";
import { type IncomingMessage, type Server, type ServerResponse, createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import { type Browser, type BrowserContext, type Page, chromium } from "playwright-core";
import { build } from "vite";
import type { UploaderOptions } from "../../packages/upload/src/index.ts";
import { RealServer } from "../../packages/upload/test/server.ts";

export const mib = 1 << 20;

/** Stage is a server, a browser, and a page that holds the library as it is built for browsers. */
export class Stage {
  private constructor(
    readonly server: RealServer,
    readonly token: string,
    readonly browser: Browser,
    readonly dir: string,
    readonly site: Server,
  ) {}

  static async set(binary: string): Promise<Stage> {
    const dir = await mkdtemp(join(tmpdir(), "smartdrive-e2e-"));
    const out = join(dir, "site");
    await build({ root: join(import.meta.dirname, "page"), configFile: false, logLevel: "warn", base: "./", build: { outDir: out, emptyOutDir: true } });
    const site = createServer((q, r) => void serve(out, q, r));
    await new Promise<void>((resolve) => site.listen(0, "127.0.0.1", resolve));
    const server = await RealServer.start(binary, "--upload-idle", "5s", "--default-quota", "100GiB");
    // The page comes from elsewhere than the API, so that it needs nothing of the server; the browser is told not to mind.
    const browser = await chromium.launch({
      executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium",
      args: ["--no-sandbox", "--disable-web-security", "--enable-precise-memory-info", "--host-resolver-rules=MAP nas.lan 127.0.0.1"],
    });
    return new Stage(server, await server.login(), browser, dir, site);
  }

  async strike(): Promise<void> {
    await this.browser.close();
    await new Promise((resolve) => this.site.close(resolve));
    await this.server.stop();
    await rm(this.dir, { recursive: true, force: true });
  }

  get siteUrl(): string {
    return `http://127.0.0.1:${(this.site.address() as AddressInfo).port}`;
  }

  /** page opens the page, in a context if one is given, with an uploader in it. */
  async page(o: Partial<UploaderOptions> = {}, context?: BrowserContext): Promise<Page> {
    const page = await (context ?? (await this.browser.newContext())).newPage();
    page.on("pageerror", (err) => console.error("page:", err));
    await this.open(page, o);
    return page;
  }

  async open(page: Page, o: Partial<UploaderOptions> = {}, host = "127.0.0.1"): Promise<void> {
    await page.goto(`${this.siteUrl.replace("127.0.0.1", host)}/index.html`);
    await page.waitForFunction(() => "drive" in window);
    const base = `${this.server.url.replace("127.0.0.1", host)}/api/v1`;
    const options = { auth: { token: this.token }, base, stall: 500_000, ...o } as UploaderOptions; // a busy machine is no broken line
    await page.evaluate((opt) => window.drive.start(opt), options);
  }

  /** file makes a sparse file whose content is like no other's. */
  async file(name: string, size: number): Promise<string> {
    const path = join(this.dir, name);
    const f = await open(path, "w");
    await f.truncate(size);
    for (let at = 0; at < size; at += Math.max(mib, Math.floor(size / 16))) await f.write(randomBytes(64), 0, Math.min(64, size - at), at);
    await f.close();
    return path;
  }

  async folder(name: string, files: number): Promise<string> {
    const path = join(this.dir, name);
    for (let n = 0; n < files; n++) {
      const sub = join(path, `d${n % 10}`);
      if (n < 10) await mkdir(sub, { recursive: true });
      await writeFile(join(sub, `${n}.txt`), `file ${n} ${"x".repeat(n % 3000)}`);
    }
    return path;
  }
}

const types: Record<string, string> = { ".html": "text/html", ".js": "text/javascript" };

/** serve gives out the page; a PUT is taken in and forgotten: the bare server. */
async function serve(root: string, q: IncomingMessage, r: ServerResponse): Promise<void> {
  if (q.method === "PUT") {
    q.resume().on("end", () => r.end("ok"));
    return;
  }
  try {
    const path = new URL(q.url ?? "/", "http://site").pathname;
    const body = await readFile(join(root, path));
    r.setHeader("Content-Type", types[extname(path)] ?? "application/octet-stream").end(body);
  } catch {
    r.writeHead(404).end();
  }
}

/** add puts a file into the page's queue and returns the item's id. */
export async function add(page: Page, path: string, folder: string): Promise<string> {
  await page.setInputFiles("#files", path);
  return (await page.evaluate((to) => window.drive.add("files", to), folder))[0]!;
}

/** Line sets how many bytes per second a page sends at most; -1: there is no bound, 0: it is off line. */
export type Line = (bytes: number) => Promise<void>;

export async function lineOf(page: Page): Promise<Line> {
  const session = await page.context().newCDPSession(page);
  await session.send("Network.enable");
  return async (bytes) => {
    await session.send("Network.emulateNetworkConditions", { offline: bytes === 0, latency: 0, downloadThroughput: -1, uploadThroughput: bytes });
  };
}

/**
 * middle adds a file, waits for so many bytes of it, and makes the line so slow that the upload does not end, however long somebody
 * takes to do something in the middle of it. It returns the item's id and the line.
 */
export async function middle(page: Page, bytes: number, begin: () => Promise<string>): Promise<[string, Line]> {
  const line = await lineOf(page);
  await line(32 * mib);
  const id = await begin();
  await until(page, id, bytes);
  await line(mib);
  return [id, line];
}

/** until waits for an item's state, for why it is in it, or for so many bytes of it. */
export async function until(page: Page, id: string, what: string | number): Promise<void> {
  await page.waitForFunction(
    ([item, w]) => {
      const { state } = window.drive.item(item as string);
      if (state.kind === "failed" && w !== "failed") throw new Error(JSON.stringify(state));
      if (typeof w === "string") return state.kind === w || ("why" in state && state.why === w);
      return ["done", "instant"].includes(state.kind) || ("bytes" in state && (state.bytes ?? 0) >= w!);
    },
    [id, what],
    { timeout: 500_000, polling: 50 },
  );
}

/** Memory watches a page's JavaScript heap, in bytes. */
export async function watchHeap(page: Page): Promise<() => Promise<number>> {
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable");
  let most = 0;
  let watching = true;
  const look = (async () => {
    while (watching) {
      const { metrics } = await session.send("Performance.getMetrics");
      most = Math.max(most, metrics.find((m) => m.name === "JSHeapUsedSize")?.value ?? 0);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  })();
  return async () => {
    watching = false;
    await look;
    return most;
  };
}
