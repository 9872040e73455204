import { expect, test, vi } from "vitest";
import { i18n, loadMessages, loadWorkMessages } from ".";

test("texts of a page that is opened while its language is on its way come in that language", async () => {
  vi.stubGlobal("document", { documentElement: {} });
  await Promise.all([loadMessages("zh-CN"), loadWorkMessages()]);
  expect(i18n.global.t("users.edit", { name: "ann" })).toBe("修改 ann");
});
