/** Made-up replicas, in the shape of src/wires/admin/feed/peers.ts: this one, one that lives, one that is gone. */
import type { PeerFeed, PeersFeed } from "../../../src/wires/admin/feed/peers.ts";

export function peersOf(): PeersFeed {
  const ago = (ms: number): string => new Date(Date.now() - ms).toISOString();
  const replica = (at: number, state: PeerFeed["state"], ageMs: number, requests: number): PeerFeed => ({
    ...{
      id: `epp-${at}`,
      state,
      startedAt: ago(3_600_000 * at),
      ageMs,
      messages: 1200 * at,
      requests,
      tokens: requests * 900,
    },
    endpoints: requests === 0 ? [] : [{ endpoint: "10.0.0.1:8000", requests, tokens: requests * 900 }],
    endpointCount: requests === 0 ? 0 : 1,
  });
  return {
    self: { id: "epp-0", startedAt: ago(7_200_000) },
    state: "in-step",
    store: { server: "redis://127.0.0.1:6379", state: "up", since: ago(600_000), reason: null, answerMs: 0.8 },
    replicas: [replica(1, "live", 120, 30), replica(2, "gone", 42_000, 0)],
    sent: { loads: 4210, placed: 910, bytes: 1_310_720 },
    received: { loads: 8120, placed: 1840, decisions: 1840, blocks: 61_200 },
    ...{ waiting: 0, dropped: 0, refused: { garbage: 0, version: 0, damaged: 0 } },
  };
}
