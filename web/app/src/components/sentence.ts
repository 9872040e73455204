// Sentences of the page's own for what goes wrong in one place only: there the server's general one would leave people guessing.
import { Problem, isProblem } from "@/api/client";
import { i18n } from "@/i18n";
import { visible } from "@/format";
import { explain } from "./notify";

const t = (key: string, args: Record<string, unknown> = {}) => i18n.global.t(key, args);
const minutes = (seconds: number) => Math.max(1, Math.ceil(seconds / 60));

/** Why a login or a code was refused. */
export function explainLogin(error: unknown): string {
  if (isProblem(error, "unauthenticated")) return t("login.wrong");
  if (isProblem(error, "rate")) return t("login.locked", { n: minutes(error.retryAfter) });
  return explain(error);
}

/** Why a login by an identity provider was refused. */
export function explainSignOn(error: unknown): string {
  if (isProblem(error, "gone")) return t(error.members["reason"] === "sign-on-failed" ? "signOn.failed" : "signOn.over");
  if (isProblem(error, "unauthenticated")) return t("signOn.over"); // the login that was to be connected has ended
  if (isProblem(error, "unavailable")) return t("signOn.silent");
  return explainPassword(error);
}

/** Why a password was not changed. */
export function explainPassword(error: unknown): string {
  if (isProblem(error, "forbidden") && error.members["reason"] === "password") return t("settings.wrongPassword");
  if (isProblem(error, "rate")) return t("login.locked", { n: minutes(error.retryAfter) });
  return explain(error);
}

/** Why there is no zip of what was chosen. */
export function explainZip(error: unknown): string {
  if (isProblem(error, "too-large")) {
    const limit = Number(error.members["limit"]) || 100_000; // files of a zip
    return t(error.members["reason"] === "picked" ? "zip.many" : "zip.large", { n: limit.toLocaleString(i18n.global.locale.value) });
  }
  if (isProblem(error, "bad-request")) return t("zip.none");
  if (isProblem(error, "unavailable", "rate")) return t("zip.busy");
  return explain(error);
}

/** Why the page of a link shows nothing: it leads nowhere any more, or just now. */
export function explainLink(error: unknown): string {
  if (isProblem(error, "gone", "not-found")) return t("visitor.goneText");
  if (isProblem(error, "rate")) return t("login.locked", { n: minutes(error.retryAfter) });
  return visible(explain(error));
}

const visitFaults: Record<number, string> = { 400: "empty", 401: "late", 404: "gone", 410: "gone", 413: "large", 503: "busy" };

/** Why a visitor of a link gets no file or zip, by the status alone: the answer has no body. */
export function explainVisit(error: unknown): string {
  const why = error instanceof Problem && visitFaults[error.status];
  return why ? t(`visitor.zipFaults.${why}`) : explain(error);
}
