/**
 * Writes docs/reference/ from the tables in the code; with `--check` it writes nothing and fails when a page is stale.
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ERROR_AREAS } from "../src/base/inference/error-codes/table.ts";
import { OUTCOMES, type OutcomeReason } from "../src/base/inference/outcomes.ts";
import { withApiBatches } from "../src/commands/batch/command.ts";
import { batchServerCommand } from "../src/commands/batch-server/command.ts";
import { checkServerCommand } from "../src/commands/check-server/command.ts";
import { explainConfigCommand, migrateConfigCommand, validateCommand } from "../src/commands/config/command.ts";
import { demoCommand } from "../src/commands/demo/command.ts";
import { dispatchReference } from "../src/commands/dispatch/dispatch-flag-table.ts";
import { batchCommand, enqueueCommand, queueCommand, resultsCommand } from "../src/commands/dispatch/queue-commands.ts";
import { doctorCommand } from "../src/commands/doctor/command.ts";
import { envoyConfigCommand } from "../src/commands/envoy-config/command.ts";
import { eppReference } from "../src/commands/epp/epp-flags.ts";
import { explainCommand } from "../src/commands/explain/command.ts";
import { gatewayCommand } from "../src/commands/gateway/command.ts";
import { initCommand } from "../src/commands/init/command.ts";
import { keysCommand } from "../src/commands/keys/command.ts";
import { simCommand } from "../src/commands/sim/command.ts";
import { simulateCommand } from "../src/commands/simulate/command.ts";
import { topCommand } from "../src/commands/top/command.ts";
import { commandMarkdown } from "./command-text.ts";
import { renderMetricsReference } from "./metrics-reference.ts";
import { dispatchFilesReference, gatesReference, pluginsReference } from "./plugin-reference.ts";

const root = join(import.meta.dirname, "..");

/** Why a client is answered so, and what to do: a paragraph for each outcome. */
const REFUSALS: Readonly<Record<OutcomeReason, string>> = {
  bad_request:
    "The request cannot be read: the body is not JSON, or a member that its API needs is missing or has the wrong type. The detail names the member. Correct the request.",
  model_missing: "The body names no model. Set `model`.",
  over_token_limit:
    "The prompt alone has more tokens than a limit allows in a minute, so waiting does not help. The detail names the limit. Send a shorter prompt, or raise the limit; [quotas.md](../use/quotas.md) says how Sluice estimates tokens.",
  no_parser:
    "No parser knows the path of the request. Correct the path, or configure a parser for it; [plugins.md](plugins.md) lists the parsers.",
  key_missing:
    "The gateway has keys, and the request sends none. Send a key in `authorization: Bearer KEY`, `x-api-key` or `api-key`; [keys.md](../use/keys.md) describes keys.",
  key_invalid:
    "The gateway does not know the key, the path or the query contains a key, or the token is not valid. For a token, the detail names the fault. Correct the key or the token, or ask the operator of the gateway for a key.",
  key_expired:
    "The key or the token was valid and has expired. Ask the operator of the gateway for a new key, or the issuer for a new token.",
  key_revoked: "The operator has revoked the key. Ask the operator of the gateway for a new key.",
  token_unverifiable:
    "The gateway cannot read the keys of the token's issuer, or checks too many tokens at the moment. Keys of the keys file still work. Try again later; the log of the gateway has the cause.",
  path_not_allowed:
    "The gateway does not pass requests with this method and path to model servers. `sluice gateway --print-paths` lists the paths that pass. Correct the path, or ask the operator of the gateway to [allow the path](../use/gateway.md#what-passes).",
  unknown_model:
    "The pool has InferenceModels, but none for the model of the request, or its InferenceModel has no valid target. Correct the model name or the InferenceModel; [resources.md](../use/resources.md) says when Sluice refuses an unknown model.",
  model_not_found:
    "No endpoint of the pool serves the model of the request. Each endpoint has listed its models, or the endpoints file states them; the detail names similar models and the first ones. Correct the model name, or start a server for the model; [gateway.md](../use/gateway.md#several-models) says how Sluice learns the models.",
  model_not_allowed:
    "The key or token may use only some models, and the request names another model or none. Name a model that the key may use, or ask the operator of the gateway for the model; `GET /v1/models` lists the models of the key.",
  body_stalled:
    "The body of the request arrived too slowly while other requests waited for memory. Send the request again; [bodies.md](../operate/bodies.md) has the rate, the window and their flags.",
  precondition_failed:
    "The request has the header `prefer: if-available`, and the chosen endpoint does not hold the beginning of the prompt in its prefix cache. Without the header, the endpoint computes the whole prompt.",
  too_large:
    "The body is larger than the limit: 32 MiB in `sluice gateway`, and `--max-request-body` (default 32Mi) in `sluice epp`. Send less, or raise the flag of `sluice epp`.",
  rate_limited_requests:
    "A limit of requests per minute is reached: for the key (without keys, for the address of the client), for the model, or for both together. The detail names the limit. Send the request again after the time in `retry-after` and `retry-after-ms`. By default, the official clients of OpenAI and Anthropic do so twice, if the time is at most 60 s. [quotas.md](../use/quotas.md) has the rules.",
  rate_limited_tokens:
    "A limit of tokens per minute is reached. Prompts and answers count together; a request reserves the tokens that its answer will probably need. The rest is as for [rate_limited_requests](#rate_limited_requests).",
  rate_limited_in_flight:
    "A limit of requests in flight is reached, for the key, the model or both together. Wait until one of the requests ends, or try again after `retry-after`.",
  saturated:
    "The pool is too saturated for the priority (or criticality) of the request, or the queue of this priority is full. Try again later, add endpoints, or raise the priority.",
  no_target:
    "Endpoints exist, but the filters of the profile leave none of them for this request. `sluice explain` names the filter. Try again later, or correct the configuration.",
  denied:
    "A plugin refused the request, and the detail is the text of the plugin. For the remedy, read this text or the documentation of the plugin.",
  evicted: "Flow control ended the request before its answer was complete. Send the request again later.",
  evicted_queue_pressure:
    "The queue was full, and the flow (fairness ID) of this request held more of the queue than another flow. Flow control removed the newest requests of the larger flow to make room. Send fewer requests at a time, or send the request again later.",
  evicted_priority:
    "All queues together were full, and a request of higher priority took the place of this request. Send the request again later, or raise `maxRequests` or `maxBytes` of `flowControl`.",
  ttl_expired:
    "The request waited in a queue of flow control, and the endpoints had no room for the request in time. Send the request again later, add endpoints, or raise `defaultRequestTTL`.",
  queue_timeout: "This is [ttl_expired](#ttl_expired) of a picker with `--parity v1.5`.",
  internal:
    "A plugin failed, or Sluice has a defect; the detail and the log have the error message. Correct the plugin. If the plugin is not yours, report the log line with its stack.",
  not_supported:
    "Envoy sends bodies in a mode that the picker refuses. Set the body modes of the ext_proc filter of Envoy to `FULL_DUPLEX_STREAMED`.",
  upstream_connect:
    "No endpoint accepted a connection, and no further endpoint or retry was left. Check that the model servers run and that the gateway (or Envoy) reaches their addresses.",
  upstream_reset:
    "The model server ended the connection before its answer began, and the gateway could not send the request again. Check the log of the model server.",
  upstream_timeout:
    "The gateway found no endpoint within 10 minutes, or the model server did not begin its answer within an hour. Both limits are fixed, and the gateway does not retry the request. Read the log of the model server. With flow control, a lower `defaultRequestTTL` answers waiting requests earlier.",
  no_endpoints:
    "Sluice knows no endpoint, Envoy's subset hint allows none, or no endpoint came while the request waited in a queue of flow control. A request without a body also gets this answer while every endpoint is down. Check the endpoints file, or the pods of the pool and its selector; `/debug/endpoints` of the admin port lists the endpoints.",
  context_cancelled:
    "The client left while its request waited in a queue of flow control. No action is needed: the client does not read this answer.",
  shutting_down:
    "The process stops, and flow control holds no further requests. Send the request again, to another replica.",
};

/** The answers to clients, and every code of `SluiceError`, with a heading each: the command line prints the anchors. */
function errorsReference(): string {
  const refusals = Object.entries(OUTCOMES).flatMap(([reason, row]) => [
    `#### ${reason}`,
    "",
    `Status ${row.status}, code \`${row.code}\`${"dropped" in row ? `, dropped reason \`${row.dropped}\`` : ""}.`,
    REFUSALS[reason as OutcomeReason],
    "",
  ]);
  const areas = Object.entries(ERROR_AREAS).flatMap(([title, errors]) => [
    `### ${title}`,
    "",
    ...Object.entries(errors).flatMap(([code, row]) => [
      `#### ${code}`,
      "",
      `${row.cause} ${row.remedy}${row.exit === 1 ? "" : ` Exit status ${row.exit}.`}`,
      "",
    ]),
  ]);
  return [
    "# Errors",
    "",
    "A command that ends with an error prints the error code and its place on this page below the message. Applications find the code in",
    "`code` of the `SluiceError` that `sluice/producer` throws. A running server logs errors of requests, plugins and connections, and goes",
    "on; an exit status below applies to a server that cannot start.",
    "",
    "## Exit statuses",
    "",
    "| Exit status | Meaning |",
    "|---|---|",
    "| 0 | The command did its work. |",
    "| 1 | An error, or a negative result, such as lines of a batch without an answer. Each code below without an exit status ends with 1. |",
    "| 2 | The command line is wrong, or, for some commands, a file that it names. |",
    "| 130, 143 | SIGINT or SIGTERM ended the command before its work was done. |",
    "",
    "`sluice check-server` also ends with 2 when it cannot check the server. `sluice dispatch` ends with 1, as the reference does, when",
    "it can read each flag, but the flags do not fit together.",
    "",
    "## Error codes",
    "",
    ...areas,
    "## On the inference path",
    "",
    "Through Envoy the client gets the text `inference error: <code> - <detail>`. `sluice gateway` answers with an error object: in",
    "Anthropic's form for clients of Anthropic's API, else in OpenAI's form. The member `help` of the object names the place on this page. The",
    "code is also the value of the label `error_code`; `error.code` in OpenAI's form is the status, or a word that OpenAI's API has, such as",
    "`rate_limit_exceeded`. The dropped reason is the value of the header `x-llm-d-request-dropped-reason`.",
    "",
    ...refusals,
    "### Bad HTTP requests",
    "",
    "`sluice gateway` refuses these requests and closes the connection. The message names the fault.",
    "",
    "| Status | `x-gateway-error` | Cause and remedy |",
    "|---|---|---|",
    "| 400, 417 | `bad-request` | The request breaks HTTP/1.1, or a proxy could read it in two ways. Correct the client. |",
    "| 408 | `request-timeout` | The headers, or the next bytes of the body, did not arrive in time. Send the request again. |",
    "| 414 | `uri-too-long` | The request target is over its limit. Send parameters in the body. |",
    "| 431 | `headers-too-large` | The headers are over their limit in bytes or in number. Send fewer. |",
    "| 501 | `not-supported` | The client asked for `Upgrade` or `CONNECT`. Send a plain HTTP/1.1 request. |",
    "",
  ].join("\n");
}

/** Every command with its flags. */
function flagsReference(): string {
  const batch = withApiBatches(batchCommand());
  const batches = [batch, ...batch.commands, batchServerCommand()];
  const queues = [enqueueCommand(), resultsCommand(), ...queueCommand().commands, ...batches];
  const commands = [
    initCommand(),
    gatewayCommand(),
    doctorCommand(),
    ...keysCommand().commands,
    simCommand(),
    simulateCommand(),
    demoCommand(),
    topCommand(),
    explainCommand(),
    validateCommand(),
    explainConfigCommand(),
    migrateConfigCommand(),
    envoyConfigCommand(),
    checkServerCommand(),
    ...queues,
  ];
  return ["# Commands and flags", "", eppReference(), dispatchReference(), ...commands.map(commandMarkdown)].join("\n");
}

const PAGES: Readonly<Record<string, () => string>> = {
  "dispatch-files.md": dispatchFilesReference,
  "errors.md": errorsReference,
  "flags.md": flagsReference,
  "gates.md": gatesReference,
  "metrics.md": renderMetricsReference,
  "plugins.md": pluginsReference,
};

const folder = join(root, "docs", "reference");
mkdirSync(folder, { recursive: true });
let stale = 0;
for (const [name, render] of Object.entries(PAGES)) {
  const file = join(folder, name);
  const wanted = `<!-- Generated by scripts/docs.ts. -->\n${render().trimEnd()}\n`;
  if (!process.argv.includes("--check")) {
    writeFileSync(file, wanted);
    continue;
  }
  let found = "";
  try {
    found = readFileSync(file, "utf8");
  } catch {
    // A missing page is a stale one.
  }
  if (found === wanted) continue;
  stale++;
  console.error(`docs/reference/${name} is stale: run node scripts/docs.ts`);
}
if (stale > 0) process.exit(1);
