import { z } from "zod";
import { defineProfileHandler } from "../../../../base/plugin/define.ts";
import { disaggHeadersHandler } from "../hooks/disagg-headers-handler.ts";
import { DisaggStages } from "./disagg-stages.ts";

const name = () => z.string().min(1, { error: "must not be empty" });
const ignored = () => z.string().optional().describe("Accepted for older configurations, ignored.");

const parameters = z
  .strictObject({
    decodeProfile: name().default("decode").describe("Name of the decode profile."),
    prefillProfile: name().default("prefill").describe("Name of the prefill profile."),
    deciderPluginName: name().default("prefix-based-pd-decider").describe("Name of the decider of the prefill stage."),
    primaryPort: z
      .int()
      .default(0)
      .describe("Only 0: requests go to the port of the endpoint that was chosen.")
      .refine((port) => port === 0, {
        error:
          "is not supported: requests go to the port of the endpoint that was chosen; leave it out, and list all ports of the pods as targetPorts of the pool",
      }),
    prefixPluginName: ignored(),
    prefixPluginType: ignored(),
    prefixMatchInfoProducerName: z
      .string()
      .default("")
      .describe("Accepted for older configurations, ignored: the decider has a parameter of this name."),
  })
  .superRefine(({ decodeProfile, prefillProfile }, context) => {
    if (decodeProfile !== prefillProfile) return;
    const message = `is the profile of the decode stage, too, ${decodeProfile}`;
    context.addIssue({ code: "custom", path: ["prefillProfile"], message });
  });

/** scheduling 3.7 */
export const pdProfileHandler = defineProfileHandler({
  type: "pd-profile-handler",
  describe: "Deprecated: chooses besides the endpoint that answers one that computes the prompt.",
  deprecated: "write disagg-profile-handler, with the decider in deciders.prefill",
  parameters,
  references: ({ deciderPluginName }) => [{ path: ["deciderPluginName"], name: deciderPluginName, kind: "decider" }],
  companions: ({ prefillProfile }) => [{ definition: disaggHeadersHandler, parameters: { prefillProfile } }],
  create: ({ decodeProfile, prefillProfile, deciderPluginName }, context) =>
    new DisaggStages({
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
