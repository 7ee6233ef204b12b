import { z } from "zod";
import type { Endpoint } from "../../../../base/inference/endpoint.ts";
import { defineProducer } from "../../../../base/plugin/define.ts";
import { TOPOLOGY_HOST, TOPOLOGY_RACK, TOPOLOGY_REGION, TOPOLOGY_ZONE } from "../../../../base/plugin/keys.ts";
import type { ProduceContext, Producer } from "../../../../base/plugin/kinds.ts";
import { labelOf } from "../labels.ts";

/** The most places whose numbers are kept; above it the numbers begin anew, which no decision sees. */
const MAX_PLACES = 65_536;

const KEYS = [TOPOLOGY_HOST, TOPOLOGY_RACK, TOPOLOGY_ZONE, TOPOLOGY_REGION] as const;

/** The names of the labels that hold host, rack, zone and region. */
type PlaceLabels = readonly [string, string, string, string];

const label = (standard: string) =>
  z
    .string()
    .default(standard)
    .transform((text) => text || standard);

/** scheduling 1.8 */
export const topologyExtractor = defineProducer({
  type: "topology-extractor",
  describe: "Reads the place of each endpoint from the labels of its pod: host, rack, zone and region.",
  parameters: z.strictObject({
    hostname: label("kubernetes.io/hostname").describe(
      "Label with the host; without the label, the name of the node of the pod.",
    ),
    rack: label("topology.kubernetes.io/rack").describe("Label with the rack."),
    zone: label("topology.kubernetes.io/zone").describe("Label with the zone."),
    region: label("topology.kubernetes.io/region").describe("Label with the region."),
  }),
  produces: KEYS,
  create: ({ hostname, rack, zone, region }) => new Topology([hostname, rack, zone, region]),
});

/** The places of one endpoint, as numbers in the order of `KEYS`. */
interface Known {
  readonly labels: Endpoint["labels"];
  readonly node: string | undefined;
  readonly places: readonly number[];
}

class Topology implements Producer {
  readonly #labels: PlaceLabels;
  readonly #known = new Map<number, Known>();
  readonly #numbers = new Map<string, number>();

  constructor(labels: PlaceLabels) {
    this.#labels = labels;
  }

  produce({ candidates }: ProduceContext): void {
    const columns = KEYS.map((key) => candidates.column(key));
    if (this.#numbers.size > MAX_PLACES) {
      this.#numbers.clear();
      this.#known.clear();
    }
    for (let i = 0; i < candidates.count; i++) {
      const places = this.#placesOf(candidates.endpoints[i]!);
      for (let level = 0; level < KEYS.length; level++) columns[level]![i] = places[level]!;
    }
  }

  endpointRemoved({ slot }: Endpoint): void {
    this.#known.delete(slot);
  }

  #placesOf({ slot, labels, node }: Endpoint): readonly number[] {
    const known = this.#known.get(slot);
    if (known !== undefined && known.labels === labels && known.node === node) return known.places;
    const places = this.#labels.map((name, level) => {
      const place = labelOf(labels, name) || (level === 0 ? (node ?? "") : "");
      return place === "" ? 0 : this.#numberOf(`${level} ${place}`);
    });
    this.#known.set(slot, { labels, node, places });
    return places;
  }

  #numberOf(place: string): number {
    const number = this.#numbers.get(place) ?? this.#numbers.size + 1;
    this.#numbers.set(place, number);
    return number;
  }
}
