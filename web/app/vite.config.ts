import vue from "@vitejs/plugin-vue";
import Components from "unplugin-vue-components/vite";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

const source = (file: string) => fileURLToPath(new URL(`src/${file}`, import.meta.url));

interface Modules {
  getModuleInfo(id: string): { importedIds?: readonly string[] } | null;
}

/** All modules that these need before they run. */
function reached(modules: Modules, from: string[]): Set<string> {
  const all = new Set<string>();
  const next = [...from];
  for (let id = next.pop(); id !== undefined; id = next.pop()) {
    if (all.has(id)) continue;
    all.add(id);
    next.push(...(modules.getModuleInfo(id)?.importedIds ?? []));
  }
  return all;
}

/** Components of Element Plus that are part of another one's module. */
const within: Record<string, string> = {
  "checkbox-group": "checkbox", "dropdown-item": "dropdown", "dropdown-menu": "dropdown", "form-item": "form", "option": "select",
  "radio-button": "radio", "radio-group": "radio", "tab-pane": "tabs",
};

/** Finds a component of Element Plus in its own module: by way of the index of all of them no page would be without any. */
function elementPlus(name: string) {
  if (!/^El[A-Z]/.test(name)) return undefined;
  const part = name.slice(2).replace(/(?!^)([A-Z])/g, "-$1").toLowerCase();
  const at = "element-plus/es/components/";
  return { name, from: `${at}${within[part] ?? part}/index.mjs`, sideEffects: `${at}${part}/style/css` };
}

// On a slow line a file costs a round trip, and six are fetched at a time. What every page needs is one file, and what the list of files
// and the frame around it need is another one: 296 KiB came in 64 requests when each component of a library was a file of its own.
let base: Set<string> | undefined;
let files: Set<string> | undefined;
function fileOf(id: string, modules: Modules): string | null {
  base ??= reached(modules, [source("main.ts")]);
  files ??= reached(modules, [source("components/AppShell.vue"), source("pages/FilesPage.vue")]);
  if (/\/(i18n\/zh-CN\.ts|locale\/lang\/zh-cn\.mjs)$/.test(id)) return "zh-CN";
  return base.has(id) ? "base" : files.has(id) ? "files" : null;
}

// The built form is committed: nothing in it may depend on the time or the machine.
export default defineConfig({
  base: "./", // index.html has a <base>, which the server sets to its own sub-path
  plugins: [
    vue(),
    Components({ dirs: [], dts: "src/components.d.ts", resolvers: [elementPlus] }),
  ],
  resolve: { alias: { "@": fileURLToPath(new URL("src", import.meta.url)) } },
  define: {
    __VUE_OPTIONS_API__: true, // Element Plus has components in that form
    __VUE_PROD_DEVTOOLS__: false,
    __VUE_I18N_LEGACY_API__: false,
    __INTLIFY_DROP_MESSAGE_COMPILER__: false,
    __INTLIFY_JIT_COMPILATION__: true, // messages are interpreted: a compiler would need eval
  },
  build: {
    outDir: "../../internal/head/webui/dist",
    emptyOutDir: true,
    target: "es2022",
    license: { fileName: "licenses.md" },
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 900,
    rolldownOptions: { output: { codeSplitting: { groups: [{ name: fileOf }] } } },
  },
  server: {
    proxy: { "/api": process.env["SMARTDRIVE_URL"] ?? "http://127.0.0.1:8320" },
  },
  worker: { format: "es" },
  test: { environment: "happy-dom", include: ["src/**/*.test.ts"], testTimeout: 60_000 },
});
