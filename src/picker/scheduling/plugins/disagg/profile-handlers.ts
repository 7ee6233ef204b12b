import { z } from "zod";
import { defineProfileHandler } from "../../../../base/plugin/define.ts";
import type { PluginReference } from "../../../../base/plugin/kinds.ts";
import { dataParallelHeaderHandler, primaryPort } from "../data-parallel.ts";
import { disaggHeadersHandler } from "./disagg-headers-handler.ts";
import { DisaggStages } from "./disagg-stages.ts";

const DECODE = "decode";
const PREFILL = "prefill";
const ENCODE = "encode";

const disaggParameters = z
  .strictObject({
    stageOrder: z
      .string()
      .default("decode-first")
      .describe(
        "`decode-first`: the prefill decider sees the choice of the decode profile. `prefill-first`: the prefill profile, if there is one, runs for every request. Upper and lower case, `-` and `_` count as the same.",
      )
      .refine((text) => isPrefillFirst(text) !== undefined, {
        error: ({ input }) => `is ${JSON.stringify(input)}; write decode-first or prefill-first`,
      }),
    profiles: z
      .strictObject({
        decode: z.string().default("").describe("Name of the decode profile; empty = `decode`."),
        prefill: z.string().default("").describe("Name of the prefill profile; empty = `prefill`."),
        encode: z.string().default("").describe("Name of the encode profile; empty = `encode`."),
      })
      .optional()
      .describe(
        "Names of the profiles of the stages `decode`, `prefill` and `encode`; default: the names of the stages. The decode profile must exist; the others are optional.",
      ),
    deciders: z
      .strictObject({
        prefill: z.string().default("").describe("Name of the decider of the prefill stage; empty = no prefill stage."),
        encode: z.string().default("").describe("Name of the decider of the encode stage; empty = no encode stage."),
      })
      .optional()
      .describe("Names of the deciders of the stages `prefill` and `encode`; a stage without a decider does not run."),
    decodeProfile: older("profiles.decode"),
    prefillProfile: older("profiles.prefill"),
    encodeProfile: older("profiles.encode"),
    prefillDeciderPluginName: older("deciders.prefill"),
    deciderPluginName: older("deciders.prefill"),
    encodeDeciderPluginName: older("deciders.encode"),
  })
  .superRefine((given, context) => {
    const refuse = (path: readonly string[], message: string): void => {
      context.addIssue({ code: "custom", path: [...path], message });
    };
    const flat = FLAT.filter((key) => given[key] !== undefined);
    const nested = given.profiles !== undefined ? "profiles" : given.deciders !== undefined ? "deciders" : undefined;
    if (flat.length > 0 && nested !== undefined)
      refuse([flat[0]!], `is the older form of ${REPLACEMENTS[flat[0]!]} and cannot be mixed with ${nested}`);
    const { prefillDeciderPluginName: name, deciderPluginName: alias } = given;
    if (name !== undefined && alias !== undefined && name !== alias)
      refuse(["deciderPluginName"], "differs from prefillDeciderPluginName; remove deciderPluginName (the old name)");
    const { decode, prefill, encode } = profilesOf(given);
    if (prefill === decode) refuse(["profiles"], `decode and prefill have the same profile, ${decode}`);
    if (encode === decode || encode === prefill)
      refuse(["profiles"], `encode has the same profile as another stage, ${encode}`);
    const decider = decidersOf(given).find(({ stage }) => stage === PREFILL);
    if (decider !== undefined && isPrefillFirst(given.stageOrder) === true)
      refuse(
        decider.path,
        "has no effect with stageOrder prefill-first: the prefill profile runs for every request; remove it",
      );
  });

type Given = {
  readonly profiles?: Readonly<Record<"decode" | "prefill" | "encode", string>> | undefined;
  readonly deciders?: Readonly<Record<"prefill" | "encode", string>> | undefined;
} & { readonly [key in (typeof FLAT)[number]]?: string | undefined };

/** The replacement for each field of the older form. */
const REPLACEMENTS = {
  decodeProfile: "profiles.decode",
  prefillProfile: "profiles.prefill",
  encodeProfile: "profiles.encode",
  prefillDeciderPluginName: "deciders.prefill",
  deciderPluginName: "deciders.prefill",
  encodeDeciderPluginName: "deciders.encode",
} as const;
const FLAT = Object.keys(REPLACEMENTS) as readonly (keyof typeof REPLACEMENTS)[];

/** scheduling 3.7, 3.7.1 */
export const disaggProfileHandler = defineProfileHandler({
  type: "disagg-profile-handler",
  describe:
    "Disaggregated serving: chooses the endpoint that answers. If the deciders approve, it also chooses an endpoint that computes the prompt, and endpoints that encode images and sounds. Headers name these endpoints to the model server.",
  parameters: disaggParameters,
  references: (given) => decidersOf(given).map(({ path, name }): PluginReference => ({ path, name, kind: "decider" })),
  companions: (given) => {
    const { prefill, encode } = profilesOf(given);
    return [{ definition: disaggHeadersHandler, parameters: { prefillProfile: prefill, encodeProfile: encode } }];
  },
  notes: (given) => {
    const flat = FLAT.filter((key) => given[key] !== undefined);
    const notes = flat.map((key) => `${key} is the older form of ${REPLACEMENTS[key]}`);
    if (decidersOf(given).length === 0 && isPrefillFirst(given.stageOrder) !== true)
      notes.push("without a decider only the decode profile runs; name one in deciders.prefill or deciders.encode");
    return notes;
  },
  create: (given, context) => {
    const decider = (stage: string) => {
      const found = decidersOf(given).find((entry) => entry.stage === stage);
      return found && context.plugin(found.name, "decider");
    };
    return new DisaggStages({
      prefillFirst: isPrefillFirst(given.stageOrder) === true,
      ...profilesOf(given),
      prefillDecider: decider(PREFILL),
      encodeDecider: decider(ENCODE),
      log: context.log,
      clock: context.clock,
    });
  },
});

/** Undefined when the text names no order. */
function isPrefillFirst(text: string): boolean | undefined {
  const plain = text.toLowerCase().replace(/[-_]/g, "");
  if (plain === "prefillfirst" || plain === "prefill") return true;
  return plain === "decodefirst" || plain === "decode" || plain === "" ? false : undefined;
}

function older(replacement: string) {
  return z.string().optional().describe(`Older form of ${replacement}.`);
}

/** An empty name counts as none. */
function profilesOf({ profiles, decodeProfile, prefillProfile, encodeProfile }: Given) {
  return {
    decode: profiles?.decode || decodeProfile || DECODE,
    prefill: profiles?.prefill || prefillProfile || PREFILL,
    encode: profiles?.encode || encodeProfile || ENCODE,
  };
}

/** Returns the named deciders with their parameters. */
function decidersOf({ deciders, prefillDeciderPluginName, deciderPluginName, encodeDeciderPluginName }: Given) {
  const all = [
    { stage: PREFILL, path: ["deciders", "prefill"], name: deciders?.prefill },
    { stage: PREFILL, path: ["prefillDeciderPluginName"], name: prefillDeciderPluginName },
    { stage: PREFILL, path: ["deciderPluginName"], name: prefillDeciderPluginName ? undefined : deciderPluginName },
    { stage: ENCODE, path: ["deciders", "encode"], name: deciders?.encode },
    { stage: ENCODE, path: ["encodeDeciderPluginName"], name: encodeDeciderPluginName },
  ];
  return all.flatMap(({ stage, path, name }) => (name ? [{ stage, path, name }] : []));
}

const name = () => z.string().min(1, { error: "must not be empty" });
const ignored = () => z.string().optional().describe("Accepted for older configurations, ignored.");

const pdParameters = z
  .strictObject({
    decodeProfile: name().default("decode").describe("Name of the decode profile."),
    prefillProfile: name().default("prefill").describe("Name of the prefill profile."),
    deciderPluginName: name().default("prefix-based-pd-decider").describe("Name of the decider of the prefill stage."),
    primaryPort: primaryPort(0)
      .default(0)
      .describe(
        "Port of a sidecar that gets all requests and passes them on to the rank in `x-data-parallel-host-port`; 0 = requests go to the port of the chosen endpoint.",
      ),
    prefixPluginName: ignored(),
    prefixPluginType: ignored(),
    prefixMatchInfoProducerName: z
      .string()
      .default("")
      .describe("Accepted for older configurations, ignored: the decider has a parameter of this name."),
  })
  .superRefine(({ decodeProfile, prefillProfile }, context) => {
    if (decodeProfile !== prefillProfile) return;
    const message = `is also the profile of the decode stage, ${decodeProfile}`;
    context.addIssue({ code: "custom", path: ["prefillProfile"], message });
  });

/** scheduling 3.7 */
export const pdProfileHandler = defineProfileHandler({
  type: "pd-profile-handler",
  describe: "Deprecated: chooses an endpoint for decode and, if the decider approves, an endpoint for prefill.",
  deprecated: "write disagg-profile-handler, with the decider in deciders.prefill",
  parameters: pdParameters,
  references: ({ deciderPluginName }) => [{ path: ["deciderPluginName"], name: deciderPluginName, kind: "decider" }],
  companions: ({ prefillProfile, primaryPort }) => [
    { definition: disaggHeadersHandler, parameters: { prefillProfile } },
    ...(primaryPort === 0 ? [] : [{ definition: dataParallelHeaderHandler, parameters: {} }]),
  ],
  create: ({ decodeProfile, prefillProfile, deciderPluginName, primaryPort }, context) =>
    new DisaggStages({
      ...(primaryPort === 0 ? {} : { primaryPort }),
      prefillFirst: false,
      decode: decodeProfile,
      prefill: prefillProfile,
      encode: undefined,
      prefillDecider: context.plugin(deciderPluginName, "decider"),
      encodeDecider: undefined,
      log: context.log,
      clock: context.clock,
    }),
});
