/** Faults of proxies that Sluice tolerates and reports to the operator. */
const NOTICES = {
  "repeated-end": "a proxy sent body messages after the end of a body; the picker ignores them",
  "streamed-request-body":
    "a proxy sends request bodies in the mode STREAMED, so endpoints are chosen before the model is known; configure FULL_DUPLEX_STREAMED",
} as const;

export type Notice = keyof typeof NOTICES;

/** Counts the notices, and reports each kind the first time. */
export class Notices {
  readonly #tell: (text: string) => void;
  readonly #counts = new Map<Notice, number>();

  /** @param tell called once for each kind, for example with a logger */
  constructor(tell: (text: string) => void) {
    this.#tell = tell;
  }

  add(notice: Notice): void {
    const before = this.countOf(notice);
    this.#counts.set(notice, before + 1);
    if (before === 0) this.#tell(NOTICES[notice]);
  }

  /** Every kind of notice. */
  static get kinds(): readonly Notice[] {
    return Object.keys(NOTICES) as Notice[];
  }

  /** How often the notice occurred since the start. */
  countOf(notice: Notice): number {
    return this.#counts.get(notice) ?? 0;
  }
}
