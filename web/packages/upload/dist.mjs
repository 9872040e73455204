// Finishes dist/ after tsc: the worker's URL, which tsc takes for a text, and a package.json whose exports point to JavaScript.
import { readFileSync, writeFileSync } from "node:fs";

const remote = "dist/hash/remote.js";
const text = readFileSync(remote, "utf8");
const fixed = text.replace('"./worker.ts"', '"./worker.js"');
if (fixed === text) throw new Error(`${remote} does not name the worker`);
writeFileSync(remote, fixed);

const { scripts: _, devDependencies: __, exports: ___, files: ____, ...pkg } = JSON.parse(readFileSync("package.json", "utf8"));
pkg.exports = { ".": { types: "./index.d.ts", default: "./index.js" }, "./worker": { types: "./hash/worker.d.ts", default: "./hash/worker.js" } };
writeFileSync("dist/package.json", `${JSON.stringify(pkg, null, 2)}\n`);
