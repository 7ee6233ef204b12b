import type { MetricTable } from "./registry.ts";

/** For replicas that share what they know: `sluice epp` and `sluice gateway` with `--peers`. */
export const PEER_METRICS = {
  peers: {
    type: "gauge",
    name: "sluice_peers",
    help: "Other replicas that this one hears (live), and those that were silent for 3 s (gone). The load of those that are gone does not count.",
    labels: ["state"],
  },
  peersStoreUp: {
    type: "gauge",
    name: "sluice_peers_store_up",
    help: "1 while this replica shares through the store, 0 while it decides alone.",
    labels: [],
  },
  peersSilence: {
    type: "gauge",
    name: "sluice_peers_silence_seconds",
    help: "Longest silence of a live replica in seconds. 0 without live replicas.",
    labels: [],
  },
  peersAnswer: {
    type: "gauge",
    name: "sluice_peers_store_answer_seconds",
    help: "Time that the store took for the last batch of messages.",
    labels: [],
  },
  peersRequests: {
    type: "gauge",
    name: "sluice_peers_requests_in_flight",
    help: "Requests that the other live replicas have in flight, as far as this one knows.",
    labels: [],
  },
  peersTokens: {
    type: "gauge",
    name: "sluice_peers_tokens_in_flight",
    help: "Prompt tokens that the other live replicas have in flight, as far as this one knows.",
    labels: [],
  },
  peersWaiting: {
    type: "gauge",
    name: "sluice_peers_waiting_messages",
    help: "Messages about placed blocks that wait for the store, at most 1,024.",
    labels: [],
  },
  peersSentTotal: {
    type: "counter",
    name: "sluice_peers_sent_total",
    help: "Messages that the store took, by kind: load, or placed (about placed blocks).",
    labels: ["kind"],
  },
  peersSentBytesTotal: {
    type: "counter",
    name: "sluice_peers_sent_bytes_total",
    help: "Bytes of messages that this replica sent to the store.",
    labels: [],
  },
  peersReceivedTotal: {
    type: "counter",
    name: "sluice_peers_received_total",
    help: "Messages that the store delivered, own ones included, by kind: load, or placed.",
    labels: ["kind"],
  },
  peersDroppedTotal: {
    type: "counter",
    name: "sluice_peers_dropped_total",
    help: "Messages about placed blocks that found no room while the store was away. Peers do not learn of these blocks.",
    labels: [],
  },
  peersRefusedTotal: {
    type: "counter",
    name: "sluice_peers_refused_total",
    help: "Messages that did not count, by reason. Reason damaged: the bytes are not those of a replica. Reason cluster: of another pool, or of a replica with another secret. Reason version: of another release. Reason excess: the others place more blocks than a replica takes in.",
    labels: ["reason"],
  },
} as const satisfies MetricTable;
