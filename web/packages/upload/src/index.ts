/** Uploads files from a browser to SmartDrive. Start with Uploader. */
export { Uploader, type Internals } from "./uploader.ts";
export * from "./types.ts";
export { fromDrop, fromInput, type Found } from "./folder.ts";
export { CutError, LocalError, Problem, ProxyError } from "./problem.ts";
export { fetchTransport, xhrTransport, type Reply, type Request, type Transport } from "./transport.ts";
export { browser, type Surroundings } from "./surroundings.ts";
export { localHasher } from "./hash/local.ts";
export { defaultHasher, RemoteHasher } from "./hash/remote.ts";
export type { Check, Hasher, ScanOptions, Sums } from "./hash/hasher.ts";
export { openHandles, noHandles, type Handles } from "./handles.ts";
