import type { Clock, Timer } from "../../base/clock/clock.ts";
import type { EndpointState } from "../../base/inference/endpoint.ts";
import type { LogFields, Logger } from "../../base/telemetry/logger.ts";
import type { PoolEndpoint } from "./pool-endpoint.ts";
import type { EndpointRegistry } from "./registry.ts";

/** Milliseconds of one window. */
const WINDOW = 10_000;
/** Lines in one window: about one endpoint, about all endpoints. */
const LINES_EACH = 4;
const LINES_ALL = 100;

/** The lines about one endpoint in the window. */
interface Told {
  lines: number;
  /** Changes of state that got no line. */
  untold: number;
}

const WORDS: Readonly<Record<EndpointState, string>> = {
  up: "endpoint is up",
  blind: "endpoint is blind: its metrics cannot be read",
  down: "endpoint is down",
};

/** The time in which every endpoint of the pool is down. */
interface Outage {
  /** Monotonic milliseconds. */
  readonly began: number;
  /** RFC 3339. */
  readonly since: string;
  /** What went wrong with the last endpoint. */
  readonly cause: string;
}

/**
 * Writes a line when an endpoint changes its state: `warn` when it goes down, `info` otherwise. It also writes a line when the
 * last endpoint of the pool goes down (`error`, with the time since when) or one of them is back (`info`, with the duration of
 * the outage). Lines are bounded in windows of 10 s. Changes
 * without a line are reported at the end of the window, with the state of that moment. So the last line about an endpoint is
 * always true.
 */
export class EndpointLog {
  readonly #clock: Clock;
  readonly #registry: EndpointRegistry;
  readonly #log: Logger;
  readonly #unsubscribe: readonly (() => void)[];
  /** Endpoints that changed in this window: at most those of the registry. */
  readonly #told = new Map<PoolEndpoint, Told>();
  #lines = 0;
  #window: Timer | undefined;
  /** Endpoints that are down. */
  #down = 0;
  /** The last line about the pool says that every endpoint is down. */
  #outageTold = false;
  #outageLines = 0;
  /** The outage of the moment. */
  #outage: Outage | undefined;
  /** Milliseconds of the outage that ended last. */
  #lasted = 0;

  constructor(clock: Clock, registry: EndpointRegistry, log: Logger) {
    this.#clock = clock;
    this.#registry = registry;
    this.#log = log;
    this.#unsubscribe = [
      registry.onStateChanged((endpoint, from) => {
        if (endpoint.state === "down") this.#down++;
        else if (from === "down") this.#down--;
        this.#tell(endpoint, 1, from);
        this.#followOutage(endpoint.cause);
      }),
      registry.onAdded(() => this.#followOutage("")),
      registry.onRemoved((endpoint) => {
        this.#told.delete(endpoint);
        if (endpoint.state === "down") this.#down--;
        this.#followOutage("an endpoint left the pool");
      }),
    ];
  }

  close(): void {
    for (const unsubscribe of this.#unsubscribe) unsubscribe();
    this.#window?.cancel();
  }

  /** @param changes number of changes that the line reports @param from the state before; absent = there were several */
  #tell(endpoint: PoolEndpoint, changes: number, from?: EndpointState): void {
    let told = this.#told.get(endpoint);
    if (told === undefined) {
      told = { lines: 0, untold: 0 };
      this.#told.set(endpoint, told);
    }
    this.#openWindow();
    if (told.lines >= LINES_EACH || this.#lines >= LINES_ALL) {
      told.untold += changes;
      return;
    }
    told.lines++;
    this.#lines++;
    const { id, state, cause } = endpoint;
    const fields: LogFields = { endpoint: id, ...(from === undefined ? { changes } : { from }), to: state, cause };
    this.#log[state === "down" ? "warn" : "info"](fields, WORDS[state]);
  }

  /** @param cause of the change that was just made */
  #followOutage(cause: string): void {
    const { size } = this.#registry;
    const isOut = size > 0 && this.#down === size;
    if (isOut && this.#outage === undefined)
      this.#outage = { began: this.#clock.now(), since: new Date(this.#clock.wall()).toISOString(), cause };
    if (!isOut && this.#outage !== undefined) {
      this.#lasted = this.#clock.now() - this.#outage.began;
      this.#outage = undefined;
    }
    this.#tellOutage();
  }

  #tellOutage(): void {
    const { size } = this.#registry;
    const outage = this.#outage;
    if ((outage !== undefined) === this.#outageTold || this.#outageLines >= LINES_EACH) return;
    this.#outageTold = outage !== undefined;
    // An empty pool is no event for this log: the code that empties the pool reports it.
    if (size === 0) return;
    this.#outageLines++;
    this.#openWindow();
    if (outage !== undefined) {
      const { cause, since } = outage;
      this.#log.error({ endpoints: size, cause, since }, "every endpoint of the pool is down");
    } else {
      const lastedMs = Math.round(this.#lasted);
      this.#log.info({ endpoints: size, down: this.#down, lastedMs }, "an endpoint of the pool is back");
    }
  }

  #openWindow(): void {
    this.#window ??= this.#clock.after(WINDOW, () => this.#windowOver(), true);
  }

  #windowOver(): void {
    this.#window = undefined;
    this.#lines = 0;
    this.#outageLines = 0;
    const untold = [...this.#told].filter(([, told]) => told.untold > 0);
    this.#told.clear();
    for (const [endpoint, told] of untold.splice(0, LINES_ALL)) this.#tell(endpoint, told.untold);
    if (untold.length > 0) {
      const down = untold.filter(([endpoint]) => endpoint.state === "down").length;
      this.#log.warn({ endpoints: untold.length, down }, "more endpoints changed their states");
    }
    this.#tellOutage();
  }
}
