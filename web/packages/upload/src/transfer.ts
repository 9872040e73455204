import { Flight } from "./flight.ts";
import { fly } from "./fly.ts";
import { LocalError, ProxyError } from "./problem.ts";
import { putSmall } from "./small.ts";
import { BeginAnew, type Outcome, Task } from "./task.ts";

const leastPart = 1 << 20; // bytes: the server takes none below, but the last
const mostRounds = 5; // bounds what nothing explains: uploads that vanish again and again

/** Transfer is one file on its way. It may be run again after it was stopped or has failed: it goes on from where it was. */
export class Transfer extends Task {
  flight: Flight | null = null;
  /** of the last run: the file is not the one that the server has parts of, so the next run begins anew */
  changed = false;
  #small = 0; // bytes of a small file that is there

  /** bytes of the file that are there or on their way */
  get bytes(): number {
    let n = this.flight?.have ?? this.#small;
    for (const part of this.flying.values()) n += part;
    return Math.min(n, this.file.size);
  }

  /** run sends the file; signal stops it, so that a later run goes on. */
  async run(signal: AbortSignal): Promise<Outcome> {
    const { smallFile, lookUp } = this.deps;
    if (!this.flight && !this.attach && lookUp && this.file.size <= smallFile) {
      const outcome = await putSmall(this, signal);
      if (outcome) return this.#end(outcome);
    }
    for (let round = 1; ; round++) {
      const flight = (this.flight ??= new Flight(this));
      try {
        if (this.changed) await this.#startOver(flight, signal);
        return this.#end(await fly(flight, signal));
      } catch (err) {
        if (err instanceof LocalError && err.code === "file-changed") this.changed = true;
        if (err instanceof LocalError && (err.code === "damaged" || err.code === "deleted")) this.forget(); // a retry begins anew
        if (err instanceof ProxyError && err.status === 413 && (await this.#smaller(flight, signal))) continue;
        if (!(err instanceof BeginAnew) || round === mostRounds) throw err;
        this.forget();
      }
    }
  }

  /** smaller begins anew with parts that what is in between may let pass: nginx takes 1 MiB unless it is told otherwise. */
  async #smaller(flight: Flight, signal: AbortSignal): Promise<boolean> {
    if (flight.partSize <= leastPart || flight.board.many("there") > 0) return false;
    await flight.cancel(signal);
    this.partSize = leastPart;
    this.forget();
    return true;
  }

  #end(outcome: Outcome): Outcome {
    this.#small = this.file.size;
    return outcome;
  }

  /** forget drops what is known of the upload, which is gone. */
  forget(): void {
    this.flight = null;
    this.attach = null;
    this.hooks.upload(null);
  }

  async #startOver(flight: Flight, signal: AbortSignal): Promise<never> {
    this.changed = false;
    this.digests = null;
    await flight.cancel(signal);
    throw new BeginAnew();
  }
}
