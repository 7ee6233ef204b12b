import { VirtualClock } from "../../src/base/clock/virtual.ts";
import { loopbackOnly } from "../../src/wires/admin/access.ts";
import type { AdminTls } from "../../src/wires/admin/listen.ts";
import { startAdmin } from "../../src/wires/admin/server.ts";
import type { AdminViews } from "../../src/wires/admin/views.ts";

/** What a process shows that has nothing to show yet. */
export const EMPTY_VIEWS: AdminViews = {
  metrics: () => "",
  ready: () => true,
  unready: () => undefined,
  endpoints: () => ({}),
  decisions: () => [],
  decision: () => undefined,
  keptDecisions: () => ({ count: 0, most: 4096, oldest: undefined }),
  requestIds: () => [],
  fullDecision: () => undefined,
  fullDecisions: () => [],
  pluginStates: () => ({}),
  models: () => ({}),
  limits: () => undefined,
  hasLimits: false,
  peers: () => undefined,
  sharesWithPeers: false,
  queues: () => undefined,
};

export interface TestAdmin {
  readonly url: string;
  close(): Promise<void>;
}

/** An admin port on loopback that shows `views`. */
export async function startTestAdmin(
  views: Partial<AdminViews>,
  options: {
    readonly tls?: AdminTls;
    /** As it sees the address of whoever asks. */
    readonly peer?: string;
    /** It wants this token. */
    readonly token?: string;
  } = {},
): Promise<TestAdmin> {
  const { tls, peer, token } = options;
  const admin = await startAdmin({
    ...{ host: "127.0.0.1", port: 0, clock: new VirtualClock(), views: { ...EMPTY_VIEWS, ...views }, tls },
    authorize: (asked) =>
      token !== undefined && asked.authorization !== `Bearer ${token}`
        ? { status: 401, message: "a token is needed" }
        : loopbackOnly(false)({ ...asked, peer: peer ?? asked.peer }),
  });
  return {
    url: `${tls === undefined ? "http" : "https"}://127.0.0.1:${admin.port}`,
    close: () => admin.close(),
  };
}
