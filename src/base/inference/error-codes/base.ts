import type { ErrorRow } from "./row.ts";

/** Errors of files, connections and telemetry. */
export const BASE_ERRORS = {
  DOCUMENT_MISSING: {
    exit: 1,
    cause: "The file does not exist.",
    remedy: "Correct the path, or create the file.",
  },
  DOCUMENT_UNREADABLE: {
    exit: 1,
    cause: "The file cannot be read.",
    remedy: "Name a file, not a folder, and let the user of the process read it.",
  },
  DOCUMENT_TOO_BIG: {
    exit: 1,
    cause: "The file is larger than the limit for its kind.",
    remedy: "Remove entries until the file is smaller than the limit.",
  },
  DOCUMENT_ENCODING: {
    exit: 1,
    cause: "The text is not UTF-8.",
    remedy: "Save the text as UTF-8.",
  },
  DOCUMENT_SYNTAX: {
    exit: 1,
    cause: "The file is not valid YAML or JSON.",
    remedy: "Correct the file at the line and the column in the message.",
  },
  DOCUMENT_INVALID: {
    exit: 1,
    cause: "The file has keys or values that its format does not allow.",
    remedy: "Correct every place that the message lists.",
  },
  DURATION_SYNTAX: {
    exit: 1,
    cause: "A text is not a duration.",
    remedy: "Write numbers with units, such as 500ms, 10s or 1h30m.",
  },
  QUANTITY_SYNTAX: {
    exit: 1,
    cause: "A text is not a quantity.",
    remedy: "Write a number with or without a suffix, such as 1000, 512Mi or 2G.",
  },
  REQUEST_LOG_FILE: {
    exit: 1,
    cause: "The file for the log of requests cannot be opened.",
    remedy: "Correct the path, create its folder, or let the user of the process write to it.",
  },
  TLS_FILE_UNREADABLE: {
    exit: 1,
    cause: "The file of a certificate or of a key cannot be read.",
    remedy: "Correct the path, or let the user of the process read the file.",
  },
  TLS_FILE_INVALID: {
    exit: 1,
    cause: "A certificate or a key cannot be used.",
    remedy: "Give certificates and keys in PEM format, and keys without a passphrase.",
  },
  TLS_PAIR_MISMATCH: {
    exit: 1,
    cause: "The key does not belong to the certificate.",
    remedy: "Give the key that belongs to the certificate.",
  },
  LISTEN_FAILED: {
    exit: 1,
    cause: "The process cannot listen on the address.",
    remedy: "Choose another address or port, or stop the program that uses this address.",
    hint: true,
  },
  UPSTREAM_CONNECT_TIMEOUT: {
    exit: 1,
    cause: "The gateway could not connect to a model server in time.",
    remedy: "Check that the model server runs and that the gateway can reach it.",
  },
  SERVER_TLS_FAILED: {
    exit: 1,
    cause: "The TLS handshake with a model server fails, or the gateway does not accept the certificate of the server.",
    remedy: "Give the file of the server's CA with --server-ca, and the name in its certificate with --server-name.",
  },
  GRPC_FRAME_MALFORMED: {
    exit: 1,
    cause: "The other side of a connection sent bytes that are not gRPC messages.",
    remedy: "Check that both sides speak gRPC on this port.",
  },
  GRPC_MESSAGE_TOO_LARGE: {
    exit: 1,
    cause: "The other side of a connection sent a gRPC message that is larger than the limit.",
    remedy: "Let the other side send smaller messages, or raise --grpc-max-recv-msg-size.",
  },
  PROTOBUF_MALFORMED: {
    exit: 1,
    cause: "The other side of a connection sent bytes that are not the expected protobuf message.",
    remedy: "Check that both sides use the same protobuf definitions.",
  },
  TRACING_ENDPOINT: {
    exit: 1,
    cause: "The address of the trace collector has the wrong form.",
    remedy: "Set OTEL_EXPORTER_OTLP_ENDPOINT to http://host:port, https://host:port or host:port.",
  },
  METRIC_SPEC: {
    exit: 1,
    cause: "Code of Sluice declares or uses a metric wrongly.",
    remedy: "Report the message to the project: this is a defect of Sluice.",
  },
} as const satisfies Record<string, ErrorRow>;
