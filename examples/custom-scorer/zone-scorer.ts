import { defineScorer, z } from "sluice/plugin";

/** Prefers model servers in the zone that the client names: traffic between zones costs money and milliseconds. */
export default defineScorer({
  type: "zone-scorer",
  describe: "Prefers endpoints in the zone that a request header names.",
  parameters: z.object({
    header: z.string().toLowerCase().default("x-zone").describe("Request header that names the zone."),
    label: z.string().default("topology.kubernetes.io/zone").describe("Label of endpoints that holds theirs."),
  }),
  headers: ({ header }) => [header],
  create: ({ header, label }) => ({
    score({ request, candidates, out }) {
      const zone = request.headers.get(header);
      if (zone === undefined) return;
      for (let i = 0; i < candidates.count; i++) if (candidates.endpoints[i]!.labels[label] === zone) out[i] = 1;
    },
  }),
});
