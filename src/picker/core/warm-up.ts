import type { Clock } from "../../base/clock/clock.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import { silentLogger } from "../../base/telemetry/logger.ts";
import { objectivesFromFlags } from "../../pool/resources/objectives.ts";
import type { EffectiveConfig } from "../config/effective.ts";
import { loadConfig } from "../config/load.ts";
import { InferenceCore } from "./inference-core.ts";
import { PLUGIN_REGISTRY } from "./plugins/plugins.ts";

/** Enough calls for V8 to compile the hot path, in about a tenth of a second. */
const EXCHANGES = 2000;

/**
 * Runs synthetic exchanges through a core of its own, so that the first real request finds compiled code. The warm-up uses
 * neither the network nor the process's own core.
 *
 * A configuration may refuse these exchanges and serve others, such as gRPC only, or requests with a certain header. Then the
 * code before the refusal is warm. Plugins of users may act on the requests that they see, so they must not see these. With
 * such plugins, the warm-up uses the built-in profile.
 * @param ours the plugins that the warm-up may call
 */
export async function warmUp(clock: Clock, config: EffectiveConfig, ours = PLUGIN_REGISTRY): Promise<void> {
  const isOurs = config.configured.every(({ definition }) => ours.get(definition.type) === definition);
  const core = new InferenceCore({
    clock,
    random: new SeededRandom(1),
    config: isOurs ? config : loadConfig(undefined, ours),
    models: { objectives: objectivesFromFlags([]) },
    staleness: 2000,
    ignoreSubset: false,
    prepares: false,
    log: silentLogger,
  });
  for (let i = 0; i < 10; i++)
    core.endpoints.upsert({
      namespace: "warm-up",
      name: `e${i}`,
      address: `127.0.0.${i + 1}`,
      port: 1,
      rank: 0,
      labels: {},
    });
  const wire = { pauseRequest() {}, resumeRequest() {}, evict() {} };
  const answer = Buffer.from('data: {"choices":[{"delta":{"content":"x"}}]}\n\ndata: [DONE]\n\n');
  for (let i = 0; i < EXCHANGES; i++) {
    const exchange = core.openExchange(wire);
    const body = Buffer.from(
      `{"model":"warm-up","stream":true,"messages":[{"role":"user","content":"${"word ".repeat(100 + (i % 100))}"}]}`,
    );
    exchange.requestHeaders(
      HeaderList.of([
        [":path", "/v1/chat/completions"],
        ["content-type", "application/json"],
      ]),
      false,
    );
    const decision = exchange.requestBody(body, true);
    if (decision instanceof Rejection) exchange.end("rejected", decision);
    else {
      exchange.releaseBody();
      exchange.responseHeaders(200, HeaderList.of([["content-type", "text/event-stream"]]), false);
      exchange.responseBody(answer, true);
    }
    // Lets other work of the start run in between.
    if (i % 250 === 249) await new Promise<void>((resolve) => clock.soon(resolve));
  }
  await core.close();
}
