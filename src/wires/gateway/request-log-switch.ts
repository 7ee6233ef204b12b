import type { Clock } from "../../base/clock/clock.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import { RequestLog } from "../../picker/exchange/request-log.ts";
import { openRequestLog, type RequestLogOutput, type RequestLogSettings } from "./request-log-output.ts";

/** The log of requests, whose target and choice of requests can change while requests run. */
export class RequestLogSwitch {
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #requests: RequestLog;
  #output: RequestLogOutput | undefined;
  #counter: { inc(lines: number): void } | undefined;

  constructor(clock: Clock, log: Logger) {
    this.#clock = clock;
    this.#log = log;
    this.#requests = new RequestLog(clock, 0, () => {});
  }

  /** Undefined while no request is logged. */
  get current(): RequestLog | undefined {
    return this.#output === undefined ? undefined : this.#requests;
  }

  /** Sets the counter of dropped lines, which counts from the start. */
  countIn(counter: { inc(lines: number): void }): void {
    this.#counter = counter;
    this.#output?.countIn(counter);
  }

  /**
   * Opens a target without using it.
   * @returns a function that puts it in force, and one that gives it up
   * @throws SluiceError REQUEST_LOG_FILE; then everything stays as it was
   */
  open(settings: RequestLogSettings | undefined): { use(): void; giveUp(): void } {
    const next = settings && openRequestLog(settings, this.#clock, this.#log);
    return {
      use: () => {
        const old = this.#output;
        this.#output = next;
        if (this.#counter !== undefined) next?.countIn(this.#counter);
        // Requests that run write their lines to the new target.
        this.#requests.use(settings?.every ?? 0, (line) => next?.write(line));
        void old?.close();
      },
      giveUp: () => void next?.close(),
    };
  }

  async close(): Promise<void> {
    await this.#output?.close();
  }
}
