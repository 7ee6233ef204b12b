import type { Logger } from "../../base/telemetry/logger.ts";
import type { InferenceCore } from "../../picker/core/inference-core.ts";
import { type Access, startAccess } from "../access/access.ts";
import type { KeysSettings } from "../access/keys-settings.ts";
import { checkDoor } from "../access/open-door.ts";
import type { OwnAnswer } from "../proxy/local-answer.ts";
import type { Authenticate } from "../proxy/options.ts";
import { accessParts, ownHealth } from "./gateway-access.ts";
import type { GatewayListener } from "./listener-settings.ts";

/** Who may send requests. Other keys and issuers can take over while requests run. */
export class AccessSwitch {
  readonly #core: InferenceCore;
  readonly #baseline: number;
  readonly #parts: ReturnType<typeof accessParts>;
  #access: Access | undefined;
  #inside: ((inner: Authenticate | undefined) => Authenticate) | undefined;
  #closed = false;

  /** @param baseline the share of the model servers that background requests of keys leave free, 0 to below 1 */
  constructor(core: InferenceCore, baseline: number, log: Logger) {
    this.#core = core;
    this.#baseline = baseline;
    this.#parts = accessParts(core, log, () => this.#changed());
  }

  /** Undefined = clients need no key. */
  get authenticate(): Authenticate | undefined {
    const inner = this.#access?.authenticate;
    return this.#inside === undefined ? inner : this.#inside(inner);
  }

  /** Lets a part of this process decide about its own requests. @param inside gets who decides about all others */
  useInside(inside: (inner: Authenticate | undefined) => Authenticate): void {
    this.#inside = inside;
  }

  /** The priorities that keys state, and those of tokens so far. */
  priorities(): Iterable<number> {
    return this.#access?.priorities() ?? [];
  }

  /** Answers the health checks of clients without a key, where clients need one. */
  health(isReady: () => boolean): OwnAnswer {
    const answer = ownHealth(isReady);
    return (head, client, caller) => (this.#access === undefined ? undefined : answer(head, client, caller));
  }

  /**
   * Reads keys without using them.
   * @returns a function that puts them in force, and one that gives them up
   * @throws SluiceError DOCUMENT_... for a file that is missing or wrong
   */
  async open(keys: KeysSettings | undefined): Promise<{ use(): void; giveUp(): void }> {
    const next = keys && (await startAccess(keys, this.#parts));
    return {
      use: () => {
        this.#access?.close();
        this.#access = next;
        if (this.#closed) next?.close();
        this.#changed();
      },
      giveUp: () => next?.close(),
    };
  }

  close(): void {
    this.#closed = true;
    this.#access?.close();
  }

  #changed(): void {
    // The room learns the size of the servers from now on, before the first background request comes.
    if (this.#access?.hasBackground() === true) this.#core.makeSpareRoom(this.#baseline);
    this.#core.keysChanged();
  }
}

/**
 * Refuses settings with which everybody could send requests.
 * @throws SluiceError KEYS_MISSING, FLAG_CONFLICT
 */
export function checkEntry(listeners: readonly GatewayListener[], keys: KeysSettings | undefined): void {
  const keyed = keys !== undefined && (keys.file !== undefined || keys.jwt.length > 0);
  // A client certificate lets nobody in who is not known, either.
  const unguarded = listeners.filter(({ tls }) => tls?.clientCa === undefined);
  checkDoor(unguarded, keyed, keys?.open ?? false);
}
