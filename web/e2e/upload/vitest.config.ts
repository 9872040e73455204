import { defineConfig } from "vitest/config";

// One after the other: they measure.
export default defineConfig({
  test: { root: import.meta.dirname, include: ["*.e2e.ts"], testTimeout: 600_000, hookTimeout: 600_000, fileParallelism: false, reporters: ["verbose"] },
});
