/** Who asks, for the check that guards a path. */
export interface AdminRequest {
  /** Address of the peer, as the socket knows it. */
  readonly peer: string;
  readonly method: string;
  readonly path: string;
  /** Value of the `authorization` header. */
  readonly authorization: string | undefined;
}

/** Undefined = allowed; else what to answer. */
export type Verdict = { readonly status: 401 | 403 | 500; readonly message: string } | undefined;

/** Decides about every request to the admin port; `app/` passes one in. */
export type Authorize = (request: AdminRequest) => Verdict | Promise<Verdict>;

/** Whether an address is this machine talking to itself. */
export function isLoopback(address: string): boolean {
  const plain = address.startsWith("::ffff:") ? address.slice(7) : address;
  return plain === "::1" || plain.startsWith("127.");
}

/**
 * The rule without authentication (spec/decisions.md): `/metrics` and health answer everyone, `/debug` and the page
 * answer loopback peers only.
 * @param open answer everyone everything (`--debug-open`)
 */
export function loopbackOnly(open: boolean): Authorize {
  return ({ peer, path }) =>
    open || PUBLIC.has(path) || isLoopback(peer)
      ? undefined
      : { status: 403, message: `${path} answers loopback peers only; start with --debug-open to change that` };
}

const PUBLIC: ReadonlySet<string> = new Set(["/metrics", "/healthz", "/ready"]);
