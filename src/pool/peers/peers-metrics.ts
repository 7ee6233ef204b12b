import type { Clock } from "../../base/clock/clock.ts";
import { PEER_METRICS } from "../../base/telemetry/peer-metrics.ts";
import { type MetricsRegistry, registerTable } from "../../base/telemetry/registry.ts";
import { REFUSALS } from "./message.ts";
import type { Peers } from "./peers.ts";
import type { StoreView } from "./redis-transport.ts";

/** Refusals that are usual: each replica hears itself, and messages may come twice. */
const USUAL: ReadonlySet<string> = new Set(["own", "old"]);

/**
 * Shows the other replicas and the store on the page of metrics.
 * @returns a function that stops it
 */
export function showPeers(
  registry: MetricsRegistry,
  peers: Peers,
  store: { readonly view: StoreView },
  clock: Clock,
): () => void {
  const metrics = registerTable(registry, PEER_METRICS);
  const reasons = REFUSALS.filter((reason) => !USUAL.has(reason));
  // An alert on an absent counter never fires.
  for (const reason of [...reasons, "damaged"]) metrics.peersRefusedTotal.with(reason);
  for (const kind of ["load", "placed"])
    for (const family of [metrics.peersSentTotal, metrics.peersReceivedTotal]) family.with(kind);
  metrics.peersDroppedTotal.with();
  metrics.peersSentBytesTotal.with();
  return registry.onRender(() => {
    const { view } = store;
    const now = clock.now();
    let live = 0;
    let gone = 0;
    let silence = 0;
    let requests = 0;
    let tokens = 0;
    for (const replica of peers.table.replicas) {
      if (replica.state === "gone") {
        gone++;
        continue;
      }
      live++;
      silence = Math.max(silence, now - replica.heardAt);
      for (const load of replica.loads.values()) {
        requests += load.requests;
        tokens += load.tokens;
      }
    }
    metrics.peers.with("live").set(live);
    metrics.peers.with("gone").set(gone);
    metrics.peersSilence.with().set(silence / 1000);
    metrics.peersRequests.with().set(requests);
    metrics.peersTokens.with().set(tokens);
    metrics.peersStoreUp.with().set(view.state === "up" ? 1 : 0);
    metrics.peersAnswer.with().set((view.answerMs ?? 0) / 1000);
    metrics.peersWaiting.with().set(view.waiting);
    raise(metrics.peersSentTotal.with("load"), view.loads);
    raise(metrics.peersSentTotal.with("placed"), view.placed);
    raise(metrics.peersSentBytesTotal.with(), view.bytes);
    raise(metrics.peersReceivedTotal.with("load"), view.loadsRead);
    raise(metrics.peersReceivedTotal.with("placed"), view.placedRead);
    raise(metrics.peersDroppedTotal.with(), view.dropped);
    raise(metrics.peersRefusedTotal.with("damaged"), view.damaged);
    for (const reason of reasons) raise(metrics.peersRefusedTotal.with(reason), peers.refused[reason]);
  });
}

/** Brings a counter to a count that is kept elsewhere. */
function raise(counter: { readonly value: number; inc(n: number): void }, to: number): void {
  counter.inc(to - counter.value);
}
