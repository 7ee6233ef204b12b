import { sentence } from "../../base/document/words.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import type { Parity } from "../../base/inference/parity.ts";
import { LEARN_HELP } from "../common/exchange-flags.ts";
import type { FlagRow, GivenFlags } from "../common/go-flags.ts";
import type { EppSettings } from "./epp-settings.ts";

/** Bytes: the most that one buffer may hold for a body. */
const LARGEST_BODY = 2 ** 30;

/** Flags for the messages between picker and proxy (epp-protocol 7, 19; docs/spec/decisions.md). */
export const WIRE_FLAGS = [
  {
    name: "destination-endpoint-hint-key",
    aliases: ["destinationEndpointHintKey"],
    type: "string",
    default: "x-gateway-destination-endpoint",
    since: "v0.3",
    help: "Header and metadata key that carry the chosen endpoint.",
  },
  {
    name: "destination-endpoint-hint-metadata-namespace",
    aliases: ["DestinationEndpointHintMetadataNamespace", "destinationEndpointHintMetadataNamespace"],
    type: "string",
    default: "envoy.lb",
    since: "v0.3",
    help: "Metadata namespace of the key of the chosen endpoint; empty = top level.",
  },
  {
    name: "ext-proc-mode",
    type: "string",
    choices: ["full-duplex", "buffered", "streamed", "none"],
    default: "full-duplex",
    since: "ours",
    help: "Body mode for proxies that do not announce a body mode; USE_STREAMING=false of v0.3 means buffered.",
  },
  {
    name: "ext-proc-response-mode",
    type: "string",
    choices: ["", "full-duplex", "buffered", "streamed", "none"],
    default: "",
    since: "ours",
    help: "Body mode of responses; empty = as --ext-proc-mode.",
  },
  {
    name: "strict-body-mode",
    type: "bool",
    default: "false",
    since: "ours",
    help: "Refuse all body modes other than FULL_DUPLEX_STREAMED.",
  },
  {
    name: "max-endpoints",
    type: "int",
    min: 0,
    max: 8,
    default: "0",
    since: "ours",
    help: "Number of endpoints that the picker names to the proxy for a request. The flag overrides maxNumOfEndpoints of the picker plugin; 0 = the value of that parameter, by default 1.",
  },
  {
    name: "fallback-mode",
    type: "string",
    choices: ["list", "legacy-key", "none"],
    default: "list",
    since: "ours",
    help: "Where the picker names the endpoints after the first: list = in the same list; legacy-key = in v0.3's x-gateway-destination-endpoint-fallback; none = nowhere.",
  },
  {
    name: "subset-match",
    type: "string",
    choices: ["exact", "ip"],
    default: "exact",
    since: "ours",
    help: "Match of a subset hint: exact = by address and port; ip = only by address, as in v1.5.",
  },
  {
    name: "emit-dropped-reason",
    type: "bool",
    default: "true",
    since: "ours",
    help: "Send the header x-llm-d-request-dropped-reason with refusals that have such a reason.",
  },
  {
    name: "echo-unchanged-headers",
    type: "bool",
    default: "true",
    since: "ours",
    help: "Also name unchanged headers in header mutations, as the reference does.",
  },
  {
    name: "emit-request-id",
    type: "bool",
    default: "true",
    since: "ours",
    help: "Put x-request-id into the answer to a refused request.",
  },
  {
    name: "remove-control-headers",
    type: "bool",
    default: "true",
    since: "ours",
    help: "Remove the client's control headers from the forwarded request.",
  },
  {
    name: "append-action",
    type: "string",
    choices: ["unset", "literal"],
    default: "unset",
    since: "ours",
    help: "literal = always set append_action to OVERWRITE_IF_EXISTS_OR_ADD; use it for proxies that do not read an unset append_action as overwrite.",
  },
  {
    name: "close-early",
    type: "bool",
    default: "false",
    since: "ours",
    help: "End the stream after the request phase if Sluice reads nothing of the response.",
  },
  {
    name: "legacy-header-only-500",
    type: "bool",
    default: "false",
    since: "ours",
    help: "Answer header-only requests to an empty pool with 500, as v1.5 does, instead of 503.",
  },
  {
    name: "message-timeout-hint",
    type: "duration",
    min: 0,
    default: "0s",
    since: "ours",
    help: "The message_timeout of the proxy: during a longer decision, the picker asks the proxy for more time. 0s = never.",
  },
  {
    name: "message-timeout-max",
    type: "duration",
    min: 0,
    default: "0s",
    since: "ours",
    help: "Time that the picker asks for in a long decision, at most the proxy's max_message_timeout. 0s = ten times --message-timeout-hint.",
  },
  {
    name: "max-request-body",
    type: "quantity",
    min: 1,
    max: LARGEST_BODY,
    default: "32Mi",
    since: "ours",
    help: "Largest request body; a larger body gets 413. At most 1Gi.",
  },
  {
    name: "learn-bytes-per-token",
    type: "bool",
    default: "true",
    since: "ours",
    help: sentence(LEARN_HELP),
  },
  {
    name: "parity",
    type: "string",
    choices: ["", "v1.5"],
    default: "",
    since: "ours",
    help: "Behave like this release where the defaults differ: --legacy-header-only-500, --subset-match=ip, --emit-dropped-reason=false, --emit-request-id=false, --remove-control-headers=false, --max-request-body=1Gi, --learn-bytes-per-token=false. Flags given explicitly override these values. Flow control also works as in this release.",
  },
] as const satisfies readonly FlagRow[];

/** The values that `--parity v1.5` sets (epp-protocol 19: C-1, C-4, C-10, C-13, C-21). */
const V1_5 = {
  "legacy-header-only-500": true,
  "subset-match": "ip",
  "emit-dropped-reason": false,
  "emit-request-id": false,
  "remove-control-headers": false,
  "max-request-body": LARGEST_BODY,
  "learn-bytes-per-token": false,
} as const;

/** A header that a proxy may set: a token of RFC 9110, so no pseudo header. */
const HEADER_NAME = /^[\w!#$%&'*+.^`|~-]{1,256}$/;

/**
 * The wire options of the flags.
 * @param streaming the value of USE_STREAMING of v0.3: false chooses buffered bodies, unless a flag sets the mode
 * @throws SluiceError FLAG_VALUE
 */
export function wireOf(flags: GivenFlags<typeof WIRE_FLAGS>, streaming: boolean): EppSettings["wire"] {
  const { values, explicit } = flags;
  const inForce = <K extends keyof typeof V1_5>(name: K) => parityOf(flags, name);
  const destinationKey = values["destination-endpoint-hint-key"];
  if (!HEADER_NAME.test(destinationKey))
    throw new SluiceError(
      "FLAG_VALUE",
      `--destination-endpoint-hint-key=${JSON.stringify(destinationKey.slice(0, 100))} is not the name of a header`,
    );
  const buffered = !streaming && !explicit.has("ext-proc-mode");
  return {
    destinationKey,
    destinationNamespace: values["destination-endpoint-hint-metadata-namespace"],
    fallbackMode: values["fallback-mode"],
    subsetMatch: inForce("subset-match"),
    emitDroppedReason: inForce("emit-dropped-reason"),
    emitRequestId: inForce("emit-request-id"),
    echoUnchangedHeaders: values["echo-unchanged-headers"],
    removeControlHeaders: inForce("remove-control-headers"),
    literalAppendAction: values["append-action"] === "literal",
    defaultBodyMode: buffered ? "buffered" : values["ext-proc-mode"],
    defaultResponseBodyMode: values["ext-proc-response-mode"] || undefined,
    strictBodyMode: values["strict-body-mode"],
    closeEarly: values["close-early"],
    legacyHeaderOnly500: inForce("legacy-header-only-500"),
    messageTimeoutHint: values["message-timeout-hint"],
    messageTimeoutMax: values["message-timeout-max"] || undefined,
  };
}

/** The most bytes of a request body. */
export function maxRequestBodyOf(flags: GivenFlags<typeof WIRE_FLAGS>): number {
  return parityOf(flags, "max-request-body");
}

/** Whether Sluice learns from answers how many bytes of text make a token. */
export function learnsBytesPerTokenOf(flags: GivenFlags<typeof WIRE_FLAGS>): boolean {
  return parityOf(flags, "learn-bytes-per-token");
}

/** The release that counts in flow control (scheduling 6.10). */
export function releaseOf({ values }: GivenFlags<typeof WIRE_FLAGS>): Parity {
  return values.parity;
}

/** The value of a flag that `--parity` may have changed. */
function parityOf<K extends keyof typeof V1_5>({ values, explicit }: GivenFlags<typeof WIRE_FLAGS>, name: K) {
  return values.parity === "v1.5" && !explicit.has(name) ? V1_5[name] : values[name];
}
