/** Runs the real binary for tests. */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

const password = "correct horse battery";

/**
 * freePort is one that the system hands out to nobody by itself, so that nobody's connection sits on it while a killed server is away:
 * Linux begins at 32768, others at 49152.
 */
async function freePort(): Promise<number> {
  for (;;) {
    const port = 18_000 + Math.floor(Math.random() * 14_000);
    const probe = createServer();
    const free = await new Promise<boolean>((resolve) => probe.once("error", () => resolve(false)).listen(port, "127.0.0.1", () => resolve(true)));
    await new Promise((resolve) => probe.close(resolve));
    if (free) return port;
  }
}

/** RealServer is "smartdrive serve" on a data directory of its own. */
export class RealServer {
  url = "";
  #process: ChildProcess | null = null;

  private constructor(
    readonly binary: string,
    readonly data: string,
    readonly flags: string[],
  ) {}

  static async start(binary: string, ...flags: string[]): Promise<RealServer> {
    const server = new RealServer(binary, await mkdtemp(join(tmpdir(), "smartdrive-web-")), flags);
    await server.run(`127.0.0.1:${await freePort()}`);
    return server;
  }

  /** run starts the process and waits for its ready line. */
  async run(listen: string): Promise<void> {
    const env = { ...process.env, SMARTDRIVE_ADMIN_PASSWORD: password };
    const child = spawn(this.binary, ["serve", "--data", this.data, "--listen", listen, "--min-free", "0", ...this.flags], { env, stdio: ["ignore", "pipe", "pipe"] });
    this.#process = child;
    let log = "";
    child.stderr.on("data", (chunk) => (log += String(chunk)));
    this.url = await new Promise<string>((resolve, reject) => {
      let said = "";
      child.stdout.on("data", (chunk) => {
        const ready = /SmartDrive is ready at (\S+)/.exec((said += String(chunk)));
        if (ready) resolve(ready[1]!);
      });
      child.once("exit", (code) => reject(new Error(`the server ended with ${code}: ${log}`)));
    });
  }

  async kill(): Promise<void> {
    const child = this.#process;
    if (!child || child.exitCode !== null) return;
    const gone = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await gone;
  }

  /** restart brings a killed server back at the same address. */
  restart(): Promise<void> {
    return this.run(new URL(this.url).host);
  }

  async stop(): Promise<void> {
    await this.kill();
    await rm(this.data, { recursive: true, force: true });
  }

  async call<T>(method: string, path: string, token: string, body?: unknown): Promise<T> {
    const res = await fetch(`${this.url}/api/v1${path}`, {
      method,
      headers: { ...(token && { Authorization: `Bearer ${token}` }), ...(body !== undefined && { "Content-Type": "application/json" }) },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    if (!res.ok) throw new Error(`${method} ${path}: ${res.status} ${await res.text()}`);
    return (res.status === 204 ? undefined : await res.json()) as T;
  }

  /** login returns a token; a user other than admin is made first, with a quota in bytes. */
  async login(name = "admin", total: number | null = null): Promise<string> {
    const enter = (who: string) => this.call<{ token: string }>("POST", "/sessions", "", { name: who, password });
    const admin = (await enter("admin")).token;
    if (name === "admin") return admin;
    await this.call("POST", "/admin/users", admin, { name, password, total });
    return (await enter(name)).token;
  }

  async content(path: string, token: string): Promise<Uint8Array> {
    const node = await this.call<{ id: string }>("GET", `/nodes?path=${encodeURIComponent(path)}`, token);
    const res = await fetch(`${this.url}/api/v1/nodes/${node.id}/content`, { headers: { Authorization: `Bearer ${token}` } });
    return new Uint8Array(await res.arrayBuffer());
  }
}
