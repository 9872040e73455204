/** What may go wrong with a request, and what that means for the next attempt. */

/** Problem is an error that SmartDrive reported (RFC 9457). */
export class Problem extends Error {
  override readonly name = "Problem";
  constructor(
    readonly status: number,
    readonly code: string,
    /** for people, in the language that was asked for */
    readonly detail: string,
    /** all other members of the document, such as "limit", "missing", "state" */
    readonly args: Readonly<Record<string, unknown>>,
    /** ms that the server asked to wait; 0 when it did not */
    readonly retryAfter: number,
  ) {
    super(detail || code);
  }

  /** number reads an argument that is a number, null when it is none. */
  number(name: string): number | null {
    const v = this.args[name];
    return typeof v === "number" && Number.isFinite(v) ? v : null;
  }
}

/** ProxyError is an answer that is not SmartDrive's: of a proxy in between, or of another server. */
export class ProxyError extends Error {
  override readonly name = "ProxyError";
  constructor(
    readonly status: number,
    readonly retryAfter: number,
  ) {
    super(`HTTP ${status} from something that is not SmartDrive`);
  }
}

/** CutError is a connection that failed before there was an answer: the request may have been carried out. */
export class CutError extends Error {
  override readonly name = "CutError";
}

/** LocalError is a failure of the file or of this page, which no attempt will mend. */
export class LocalError extends Error {
  override readonly name = "LocalError";
  constructor(
    readonly code: "file-changed" | "file-unreadable" | "damaged" | "gave-up" | "deleted" | "internal",
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** isProblem reports whether err is a Problem, with one of codes if any are given. */
export function isProblem(err: unknown, ...codes: string[]): err is Problem {
  return err instanceof Problem && (codes.length === 0 || codes.includes(err.code));
}

/** Verdict says what an error of one attempt means for the next. */
export interface Verdict {
  again: boolean;
  /** The request may have been carried out. */
  doubtful: boolean;
  /** A few times only: nothing says that it passes by itself. */
  limited: boolean;
  /** ms that the server asked to wait */
  wait: number;
}

const no: Verdict = { again: false, doubtful: false, limited: false, wait: 0 };

/** judge sorts an error; it is the table of client/retry.go. */
export function judge(err: unknown): Verdict {
  if (err instanceof CutError) return { ...no, again: true, doubtful: true };
  if (err instanceof Problem) return judgeProblem(err);
  if (!(err instanceof ProxyError)) return no;
  const wait = err.retryAfter;
  switch (err.status) {
    case 408:
    case 502:
    case 504:
      return { ...no, again: true, doubtful: true, wait };
    case 429:
    case 503:
      return { ...no, again: true, wait };
    case 500:
      return { ...no, again: true, doubtful: true, limited: true };
  }
  return no;
}

function judgeProblem(p: Problem): Verdict {
  switch (p.code) {
    case "in-progress":
    case "rate":
    case "stopping":
    case "unavailable":
    case "too-slow":
      return { ...no, again: true, wait: p.retryAfter };
    case "bad-request": // of a body that broke off on its way, though the reply did not
      return p.args["reason"] === "cut" ? { ...no, again: true } : no;
    case "internal":
      return { ...no, again: true, doubtful: true, limited: true };
  }
  return no;
}
