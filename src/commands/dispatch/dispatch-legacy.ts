import {
  type ConfigDocument,
  parseConfigDocument,
  readConfigDocument,
} from "../../async/dispatch/config/config-document.ts";
import type { TransportName } from "../../async/dispatch/config/transport-fields.ts";
import { didYouMean } from "../../base/document/nearest.ts";
import { type Position, SluiceError } from "../../base/inference/errors.ts";
import type { GivenFlags } from "../common/go-flags.ts";
import type { LEGACY_FLAGS } from "./dispatch-legacy-table.ts";

type Given = GivenFlags<typeof LEGACY_FLAGS>;
type LegacyFlag = keyof Given["values"];
/** Fields of a section, each with the flag that sets it. */
type Fields = Readonly<Record<string, LegacyFlag>>;

/** The values of the flags per backend, in the shape of the configuration that replaces them. */
interface LegacyTransport {
  readonly name: TransportName;
  readonly document: ConfigDocument;
  /** False: the gates of queues have no effect. */
  readonly gated: boolean;
}

const IMPLEMENTATIONS: Readonly<Record<string, TransportName>> = {
  "redis-pubsub": "redis-pubsub",
  "redis-sortedset": "redis-sortedset",
  "gcp-pubsub": "gcp-pubsub",
  "gcp-pubsub-gated": "gcp-pubsub",
};

const CONNECTION: Fields = { url: "redis.url", enable_tracing: "redis-tracing" };

/**
 * Translates the flags from before `--transport`. Inline queues take precedence over a file of queues, and a file over a single
 * queue (async-processor 8.1).
 * @throws SluiceError FLAG_CONFLICT, FLAG_MISSING, DOCUMENT_... for a file of queues
 */
export async function legacyTransport(flags: Given): Promise<LegacyTransport> {
  const { values } = flags;
  const implementation = values["message-queue-impl"];
  if (!Object.hasOwn(IMPLEMENTATIONS, implementation)) {
    const known = Object.keys(IMPLEMENTATIONS);
    throw new SluiceError(
      "FLAG_CONFLICT",
      `--message-queue-impl must be one of: ${known.join(", ")}${didYouMean(implementation, known)}`,
    );
  }
  const name = IMPLEMENTATIONS[implementation]!;
  if (name === "gcp-pubsub") {
    if (values["pubsub.project-id"] === "") throw missing("--pubsub.project-id is", implementation);
    const file = values["pubsub.topics-config-file"];
    return {
      name,
      gated: implementation === "gcp-pubsub-gated",
      document: documentOf(
        flags,
        { project_id: "pubsub.project-id", result_topic_id: "pubsub.result-topic-id", ...given("pubsub.batch-size") },
        "topics",
        file === "" ? singleQueue("pubsub", "subscriber_id", "pubsub.request-subscriber-id") : await listIn(file),
      ),
    };
  }
  if (values["redis.url"] === "" && !flags.explicit.has("message-queue-impl")) throw unconfigured();
  if (values["redis.url"] === "") throw missing("--redis.url (or the environment's REDIS_URL) is", implementation);
  if (name === "redis-pubsub")
    return {
      name,
      gated: true,
      document: documentOf(
        flags,
        { ...CONNECTION, retry_queue_name: "redis.retry-queue-name", result_queue_name: "redis.result-queue-name" },
        "queues",
        await queues("redis", singleQueue("redis", "queue_name", "redis.request-queue-name")),
      ),
    };
  return {
    name,
    gated: true,
    document: documentOf(
      flags,
      {
        ...CONNECTION,
        result_queue_name: "redis.ss.result-queue-name",
        poll_interval_ms: "redis.ss.poll-interval-ms",
        ...given("redis.ss.batch-size"),
      },
      "queues",
      await queues("redis.ss", {
        ...singleQueue("redis.ss", "queue_name", "redis.ss.request-queue-name"),
        gate_type: "redis.ss.gate-type",
        gate_params: "redis.ss.gate-params",
      }),
    ),
  };

  /** A batch size is optional: the field exists only when the flag is set. */
  function given(flag: "pubsub.batch-size" | "redis.ss.batch-size"): Fields {
    return flags.explicit.has(flag) && values[flag] !== 0 ? { batch_size: flag } : {};
  }

  async function queues(prefix: "redis" | "redis.ss", single: Fields): Promise<ConfigDocument | Fields> {
    const inline = values[`${prefix}.queues-config`];
    if (inline !== "") return parseConfigDocument(inline, `--${prefix}.queues-config`);
    const file = values[`${prefix}.queues-config-file`];
    return file === "" ? single : listIn(file);
  }
}

function listIn(file: string): Promise<ConfigDocument> {
  return readConfigDocument(file);
}

function singleQueue(prefix: "redis" | "redis.ss" | "pubsub", key: string, name: LegacyFlag): Fields {
  return {
    [key]: name,
    igw_base_url: `${prefix}.igw-base-url`,
    request_path_url: `${prefix}.request-path-url`,
    inference_objective: `${prefix}.inference-objective`,
  };
}

/** Nobody has named a transport: the user may have forgotten the file. */
function unconfigured(): SluiceError {
  return new SluiceError(
    "FLAG_MISSING",
    "no configuration: give --config FILE (see examples/dispatch.yaml), or --transport and --transport-config-file. " +
      "The default transport redis-pubsub needs --redis.url or REDIS_URL",
  );
}

/** The words of the reference, and the way to the present flags. */
function missing(what: string, implementation: string): SluiceError {
  return new SluiceError(
    "FLAG_CONFLICT",
    `${what} required when using ${implementation}; or give --config dispatch.yaml, or --transport and --transport-config-file`,
  );
}

/**
 * A document made from the values of flags.
 * @param entries the source of the queues: a list from a document, or the flags of a single queue
 */
function documentOf(flags: Given, fields: Fields, list: string, entries: ConfigDocument | Fields): ConfigDocument {
  const read = isDocument(entries) ? entries : undefined;
  const single = isDocument(entries) ? {} : entries;
  return {
    file: "--message-queue-impl",
    text: "",
    folder: process.cwd(),
    value: { ...valuesOf(flags, fields), [list]: read === undefined ? [valuesOf(flags, single)] : read.value },
    positionOf: ([field, ...inner]) => {
      if (field !== list) return atFlag(fields[String(field)] ?? "message-queue-impl");
      return read === undefined ? atFlag(single[String(inner[1])] ?? "message-queue-impl") : read.positionOf(inner);
    },
  };
}

function valuesOf({ values }: Given, fields: Fields): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).map(([field, flag]) => [field, values[flag]]));
}

function isDocument(entries: ConfigDocument | Fields): entries is ConfigDocument {
  return typeof entries.positionOf === "function";
}

/** A flag has no lines, so a fault in it is at its first character. */
function atFlag(flag: string): Position {
  return { file: `--${flag}`, line: 1, column: 1 };
}
