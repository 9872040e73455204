import vue from "@vitejs/plugin-vue";
import Components from "unplugin-vue-components/vite";
import { ElementPlusResolver } from "unplugin-vue-components/resolvers";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

// The built form is committed: nothing in it may depend on the time or the machine.
export default defineConfig({
  base: "./", // index.html has a <base>, which the server sets to its own sub-path
  plugins: [
    vue(),
    Components({ dirs: [], dts: "src/components.d.ts", resolvers: [ElementPlusResolver({ importStyle: "css" })] }),
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
  },
  server: {
    proxy: { "/api": process.env["SMARTDRIVE_URL"] ?? "http://127.0.0.1:8320" },
  },
  worker: { format: "es" },
  test: { environment: "happy-dom", include: ["src/**/*.test.ts"], testTimeout: 60_000 },
});
