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

/**
 * Writes a line when an endpoint changes its state: `warn` when it goes down, `info` otherwise. It also writes a line when the
 * last endpoint of the pool goes down (`error`) or one of them is back (`info`). Lines are bounded in windows of 10 s. Changes
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
  #outage = false;
  #outageLines = 0;

  constructor(clock: Clock, registry: EndpointRegistry, log: Logger) {
    this.#clock = clock;
    this.#registry = registry;
    this.#log = log;
    this.#unsubscribe = [
      registry.onStateChanged((endpoint, from) => {
        if (endpoint.state === "down") this.#down++;
        else if (from === "down") this.#down--;
        this.#tell(endpoint, 1, from);
        this.#tellOutage(endpoint.cause);
      }),
      registry.onAdded(() => this.#tellOutage("")),
      registry.onRemoved((endpoint) => {
        this.#told.delete(endpoint);
        if (endpoint.state === "down") this.#down--;
        this.#tellOutage("an endpoint left the pool");
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

  #tellOutage(cause: string): void {
    const { size } = this.#registry;
    const outage = size > 0 && this.#down === size;
    if (outage === this.#outage || this.#outageLines >= LINES_EACH) return;
    this.#outage = outage;
    // An empty pool is no event for this log: the code that empties the pool reports it.
    if (size === 0) return;
    this.#outageLines++;
    this.#openWindow();
    if (outage) this.#log.error({ endpoints: size, cause }, "every endpoint of the pool is down");
    else this.#log.info({ endpoints: size, down: this.#down }, "an endpoint of the pool is back");
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
      this.#log.warn({ endpoints: untold.length, down }, "further endpoints changed their states");
    }
    this.#tellOutage("");
  }
}
