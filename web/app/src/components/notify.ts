// Says how something went, in the language of the page.
import { ElMessage } from "element-plus/es/components/message/index.mjs";
import { ElMessageBox } from "element-plus/es/components/message-box/index.mjs";
import "element-plus/theme-chalk/el-message.css";
import "element-plus/theme-chalk/el-message-box.css";
import "element-plus/theme-chalk/el-button.css";
import "element-plus/theme-chalk/el-input.css";
import "element-plus/theme-chalk/el-overlay.css";
import "element-plus/theme-chalk/el-badge.css";
import { h } from "vue";
import { Problem } from "@/api/client";
import { i18n } from "@/i18n";
import { visible } from "@/format";

const t = (key: string, args: Record<string, unknown> = {}) => i18n.global.t(key, args);

/** What went wrong, for people. */
export function explain(error: unknown): string {
  if (error instanceof Problem) {
    if (error.code === "network") return t("error.network");
    if (error.status === 401) return t("visitor.zipFaults.late"); // somebody who logs in, or enters a code, has sentences of their own
    return visible(error.detail || error.title || t("error.status", { status: error.status }));
  }
  return visible(error instanceof Error ? error.message : String(error));
}

export function fail(error: unknown): void {
  if (error instanceof Problem && error.status === 401) return; // the login page comes
  ElMessage({ type: "error", message: explain(error), duration: 6000, showClose: true, grouping: true });
}

export function done(message: string): void {
  ElMessage({ type: "success", message, grouping: true });
}

/** Says what was done, with a way back. */
export function doneWithUndo(message: string, undo: () => Promise<void>): void {
  const shown = ElMessage({
    type: "success",
    duration: 8000,
    showClose: true,
    message: h("span", [
      message + " ",
      h("button", { class: "sd-undo", onClick: () => void undo().then(() => shown.close(), fail) }, t("do.undo")),
    ]),
  });
}

/** Asks; false: the answer was no. */
export async function confirm(title: string, text: string, action: string, danger = false): Promise<boolean> {
  try {
    await ElMessageBox.confirm(text, title, {
      confirmButtonText: action,
      cancelButtonText: t("do.cancel"),
      confirmButtonClass: danger ? "el-button--danger" : "",
      autofocus: true,
    });
    return true;
  } catch {
    return false;
  }
}

/** Runs what a button does and says what went wrong; false then. */
export async function attempt(act: () => Promise<unknown>, success?: string): Promise<boolean> {
  try {
    await act();
    if (success) done(success);
    return true;
  } catch (error) {
    fail(error);
    return false;
  }
}

/** Asks for a text; undefined: there was none. */
export async function ask(title: string, text: string, action: string): Promise<string | undefined> {
  try {
    const { value } = await ElMessageBox.prompt(text, title, { confirmButtonText: action, cancelButtonText: t("do.cancel"), inputType: "textarea", inputPlaceholder: title });
    return value?.trim() || undefined;
  } catch {
    return undefined;
  }
}
