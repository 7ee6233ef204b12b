/** A Lease as far as elections care; everything else of it goes back to the server as it came. */
export interface Lease {
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly spec: LeaseSpec;
}

export interface LeaseSpec {
  /** "" = nobody. */
  readonly holderIdentity: string;
  /** Whole seconds. */
  readonly leaseDurationSeconds: number;
  /** MicroTime, by the holder's wall clock: to be shown, never to be compared. */
  readonly acquireTime: string;
  readonly renewTime: string;
  readonly leaseTransitions: number;
}

/** Reads what the server sent; what is missing or of the wrong kind gets a value that frees the lease. */
export function readLease(object: unknown): Lease {
  const { metadata, spec } = (object ?? {}) as Record<string, unknown>;
  const of = (spec ?? {}) as Record<string, unknown>;
  const text = (value: unknown): string => (typeof value === "string" ? value : "");
  const whole = (value: unknown): number => (typeof value === "number" && value > 0 ? Math.floor(value) : 0);
  return {
    ...(object as object),
    metadata: (metadata ?? {}) as Record<string, unknown>,
    spec: {
      ...of,
      holderIdentity: text(of["holderIdentity"]),
      leaseDurationSeconds: whole(of["leaseDurationSeconds"]),
      acquireTime: text(of["acquireTime"]),
      renewTime: text(of["renewTime"]),
      leaseTransitions: whole(of["leaseTransitions"]),
    },
  };
}

/** `2026-01-31T12:00:00.000000Z`: six decimals, as the type MicroTime wants. @param wall Unix milliseconds */
export function microTime(wall: number): string {
  return new Date(wall).toISOString().replace("Z", "000Z");
}
