import type { MetricTable } from "./registry.ts";

/** For replicas that share what they know: `sluice epp` and `sluice gateway` with `--peers`. */
export const PEER_METRICS = {
  peers: {
    type: "gauge",
    name: "sluice_peers",
    help: "Other replicas, by state: live = this replica hears them, gone = silent for 3 s. The load of gone replicas does not count.",
    labels: ["state"],
  },
  peersStoreUp: {
    type: "gauge",
    name: "sluice_peers_store_up",
    help: "1 while this replica shares data through the store, 0 while it decides alone.",
    labels: [],
  },
  peersSilence: {
    type: "gauge",
    name: "sluice_peers_silence_seconds",
    help: "Longest silence of a live replica, in seconds. 0 without live replicas.",
    labels: [],
  },
  peersAnswer: {
    type: "gauge",
    name: "sluice_peers_store_answer_seconds",
    help: "Seconds that the store took for the last batch of messages.",
    labels: [],
  },
  peersRequests: {
    type: "gauge",
    name: "sluice_peers_requests_in_flight",
    help: "Requests in flight of the other live replicas, as this replica knows them.",
    labels: [],
  },
  peersTokens: {
    type: "gauge",
    name: "sluice_peers_tokens_in_flight",
    help: "Prompt tokens in flight of the other live replicas, as this replica knows them.",
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
    help: "Messages that the store accepted, by kind: load, or placed (about placed blocks).",
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
    help: "Messages that the store delivered, own messages included, by kind: load, or placed.",
    labels: ["kind"],
  },
  peersDroppedTotal: {
    type: "counter",
    name: "sluice_peers_dropped_total",
    help: "Dropped messages about placed blocks: no room was left while the store did not answer. Peers do not learn of these blocks.",
    labels: [],
  },
  peersRefusedTotal: {
    type: "counter",
    name: "sluice_peers_refused_total",
    help: "Ignored messages, by reason: damaged = not from a replica; cluster = another pool or secret; version = another release; excess = more new blocks than a replica takes in.",
    labels: ["reason"],
  },
} as const satisfies MetricTable;
